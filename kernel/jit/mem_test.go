package jit

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	for _, n := range []int{1, 4096, 5000, HugePage, 3*HugePage + 17} {
		for _, huge := range []bool{false, true} {
			m, err := Alloc(n, huge)
			if err != nil {
				t.Fatal(err)
			}
			b := m.Bytes()
			if len(b) != n || uintptr(m.Ptr())%HugePage != 0 {
				t.Errorf("%d bytes at %p", len(b), m.Ptr())
			}
			b[0], b[n-1] = 1, 2
			m.Free()
			m.Free()
		}
	}
	for _, n := range []int{0, -1, int(^uint(0) >> 1)} {
		if _, err := Alloc(n, true); err == nil {
			t.Errorf("Alloc(%d) succeeded", n)
		}
		if _, err := GuardBytes(n); err == nil {
			t.Errorf("GuardBytes(%d) succeeded", n)
		}
	}
}

// Slack around an allocation goes back to the system: many of them cost what they hold.
func TestAllocTrims(t *testing.T) {
	before := mappings(t)
	var all []*Mem
	for range 64 {
		m, err := Alloc(HugePage, false)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range all {
		m.Free()
	}
	if after := mappings(t); after > before+16 {
		t.Errorf("%d mappings before, %d after", before, after)
	}
}

func mappings(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return bytes.Count(b, []byte{'\n'})
}

func TestGuardBytes(t *testing.T) {
	for _, n := range []int{1, 63, pageSize - 1, pageSize, pageSize + 1} {
		m, err := GuardBytes(n)
		if err != nil {
			t.Fatal(err)
		}
		b := m.Bytes()
		if len(b) != n || cap(b) != n || (uintptr(m.Ptr())+uintptr(n))%uintptr(pageSize) != 0 {
			t.Errorf("%d bytes, capacity %d, at %p", len(b), cap(b), m.Ptr())
		}
		for i := range b {
			b[i] = byte(i)
		}
		read := func(p unsafe.Pointer) { _ = *(*byte)(p) }
		end := unsafe.Add(m.Ptr(), n)
		if SafeCall(read, end) == nil || SafeCall(read, unsafe.Add(end, -roundUp(n, pageSize)-1)) == nil {
			t.Errorf("%d: no fault outside", n)
		}
		m.Free()
		m.Free()
	}
}

func TestPin(t *testing.T) {
	all, err := AllowedCPUs()
	if err != nil || len(all) == 0 || !slices.IsSorted(all) {
		t.Fatal(all, err)
	}
	done := make(chan struct{})
	go func() { // the thread ends with its goroutine, pinned
		defer close(done)
		runtime.LockOSThread()
		for _, cpu := range all {
			if err := Pin(cpu); err != nil {
				t.Error(err)
			}
			if got, err := Affinity(); err != nil || !slices.Equal(got, []int{cpu}) {
				t.Errorf("pinned to %d, affinity %v, %v", cpu, got, err)
			}
		}
		if err := SetAffinity(all); err != nil {
			t.Error(err)
		}
	}()
	<-done
	if again, _ := AllowedCPUs(); !slices.Equal(again, all) {
		t.Errorf("allowed CPUs changed from %v to %v", all, again)
	}
	for _, bad := range [][]int{nil, {-1}, {1 << 20}} {
		if SetAffinity(bad) == nil {
			t.Errorf("SetAffinity(%v) succeeded", bad)
		}
	}
}

func TestCounter(t *testing.T) {
	a := Rdtsc()
	Pause(1000)
	if b := Rdtsc(); b <= a {
		t.Errorf("counter went from %d to %d", a, b)
	}
}
