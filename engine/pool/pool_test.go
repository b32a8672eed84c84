package pool

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t testing.TB, threads int, spin time.Duration) *Pool {
	t.Helper()
	p, err := New(threads, nil, spin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestRunCallsEveryWorkerOnce(t *testing.T) {
	for _, spin := range []time.Duration{0, 20 * time.Microsecond} {
		for _, threads := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%d threads, spin %v", threads, spin), func(t *testing.T) {
				p := newPool(t, threads, spin)
				counts := make([]int, threads) // no atomics: the join must order them
				want := make([]int, threads)
				err := p.Do(func() error {
					for i := range 300 {
						n := i%threads + 1
						if err := p.Run(n, func(w int) { counts[w]++ }); err != nil || p.Ran != n {
							return fmt.Errorf("%d workers of %d: %w", p.Ran, n, err)
						}
						for w := range n {
							want[w]++
						}
						if i%100 == 50 {
							time.Sleep(time.Millisecond) // let them park
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for w := range counts {
					if counts[w] != want[w] {
						t.Errorf("worker %d ran %d times, want %d", w, counts[w], want[w])
					}
				}
			})
		}
	}
}

func TestPanicsAndFaultsAreErrors(t *testing.T) {
	p := newPool(t, 3, 0)
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	hole := (*byte)(unsafe.Pointer(unsafe.SliceData(page)))
	var sink byte
	for name, fn := range map[string]func(w int){
		"panic":        func(w int) { panic("out of luck") },
		"fault":        func(w int) { sink += *hole },
		"other worker": func(w int) { _ = make([]int, 3)[w*2] },
	} {
		err := p.Do(func() error { return p.Run(3, fn) })
		var f *Fault
		if !errors.As(err, &f) {
			t.Errorf("%s: error %v, want a *Fault", name, err)
		}
		if err := p.Do(func() error { return p.Run(3, func(int) {}) }); err != nil {
			t.Errorf("after %s: the pool does not work any more: %v", name, err)
		}
	}
	if err := p.Do(func() error { panic("leader") }); err == nil {
		t.Error("a panic of the leader was lost")
	}
}

func TestDoFromManyGoroutines(t *testing.T) {
	p := newPool(t, 2, 0)
	var total atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				p.Do(func() error { return p.Run(2, func(w int) { total.Add(int64(w + 1)) }) })
			}
		})
	}
	wg.Wait()
	if got := total.Load(); got != 8*20*3 {
		t.Errorf("total %d, want %d", got, 8*20*3)
	}
}

func TestCloseWhileBusy(t *testing.T) {
	p, err := New(2, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for p.Do(func() error { return nil }) == nil {
			}
		})
	}
	p.Close()
	wg.Wait()
	p.Close()
	if err := p.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do after Close: %v, want ErrClosed", err)
	}
}

func TestCallerIsNotPinned(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, 2, 0)
	p.Do(func() error { return p.Run(2, func(int) {}) })
	after, _ := AllowedCPUs()
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("allowed CPUs of the caller went from %v to %v", before, after)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, n := range []int{0, -1, MaxWorkers + 1} {
		if _, err := New(n, nil, 0); err == nil {
			t.Errorf("New(%d) gave no error", n)
		}
	}
	if _, err := New(2, []int{0, 1 << 9}, 0); err == nil {
		t.Error("pinning to a CPU that does not exist gave no error")
	}
}

// TestSpin: workers that share CPUs never spin; those with one each spin, then park.
func TestSpin(t *testing.T) {
	cpus, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	const spin = 50 * time.Microsecond
	if p := newPool(t, len(cpus)+1, spin); p.spin != 0 {
		t.Errorf("%d workers on %d CPUs spin for %v", len(cpus)+1, len(cpus), p.spin)
	}
	if len(cpus) < 2 {
		t.Skip("one CPU: workers always share it")
	}
	p := newPool(t, 2, spin)
	if p.spin != spin {
		t.Errorf("2 workers on %d CPUs spin for %v, want %v", len(cpus), p.spin, spin)
	}
	if err := p.Do(func() error { return p.Run(2, func(int) {}) }); err != nil {
		t.Fatal(err)
	}
	for p.slots[1].parked.Load() == 0 { // else the test times out
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkRegion(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPool(b, n, 50*time.Microsecond)
			p.Do(func() error {
				for b.Loop() {
					p.Run(n, func(int) {})
				}
				return nil
			})
		})
	}
}
