package jit

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"golang.org/x/sys/unix"
)

// sumArgs is the argument block of sumCode.
type sumArgs struct {
	Src, Dst unsafe.Pointer
	Blocks   int64
}

func artifact(t testing.TB) *kernel.Artifact {
	code, second := sumCode(t)
	return &kernel.Artifact{
		Key: kernel.ArtifactKey{ABI: kernel.ABILeaf}, Kind: kernel.KindCode, Code: code,
		Entries: map[string]int{kernel.EntryMain: 0, "copy": second},
	}
}

// mapped maps the artifact and returns its two entries.
func mapped(t testing.TB) (sum, copy8 kernel.Func) {
	c, err := MapArtifact(artifact(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Free)
	sum, ok := c.Func(kernel.EntryMain)
	copy8, ok2 := c.Func("copy")
	if !ok || !ok2 {
		t.Fatal("entries are missing")
	}
	if _, ok := c.Func("other"); ok {
		t.Error("an entry that does not exist was found")
	}
	return sum, copy8
}

// checkSum runs sum over blocks of small dwords and compares.
func checkSum(t testing.TB, sum kernel.Func, blocks int) {
	src, dst := make([]int32, 8*blocks), make([]int32, 8)
	want := make([]int32, 8)
	for i := range src {
		src[i] = int32(i % 101)
		want[i%8] += src[i]
	}
	sum(unsafe.Pointer(&sumArgs{unsafe.Pointer(&src[0]), unsafe.Pointer(&dst[0]), int64(blocks)}))
	for i := range want {
		if dst[i] != want[i] {
			t.Errorf("lane %d: %d, want %d", i, dst[i], want[i])
		}
	}
}

func TestCall(t *testing.T) {
	sum, _ := mapped(t)
	checkSum(t, sum, 1)
	checkSum(t, sum, 1000)
}

func TestMappers(t *testing.T) {
	for _, m := range mappers {
		t.Run(m.name, func(t *testing.T) {
			c, err := mapWith([]mapper{m}, answer(t, 5))
			if err != nil {
				t.Fatal(err)
			}
			x := int64(37)
			c.Call(unsafe.Pointer(&x))
			Call0(c.Entry, unsafe.Pointer(&x))
			if x != 47 {
				t.Errorf("got %d", x)
			}
			c.Free()
			c.Free()
		})
	}
}

func TestRefused(t *testing.T) {
	no := mapper{"first", func([]byte) (unsafe.Pointer, func() error, error) { return nil, nil, unix.EACCES }}
	if _, err := mapWith([]mapper{no, no}, []byte{1}); !errors.Is(err, ErrNoExec) || !errors.Is(err, unix.EACCES) {
		t.Errorf("refusal is %v", err)
	}
	if c, err := mapWith([]mapper{no, mappers[1]}, answer(t, 1)); err != nil {
		t.Errorf("no fallback: %v", err)
	} else {
		c.Free()
	}
	if _, err := Map(nil); err == nil || errors.Is(err, ErrNoExec) {
		t.Errorf("empty code: %v", err)
	}
	a := artifact(t)
	a.Kind = kernel.KindGo
	if _, err := MapArtifact(a); err == nil {
		t.Error("a portable artifact was mapped")
	}
	a = artifact(t)
	a.Entries["bad"] = len(a.Code)
	if _, err := MapArtifact(a); err == nil {
		t.Error("an entry outside the code was accepted")
	}
}

// A child that has given up making memory executable (as under MemoryDenyWriteExecute) still maps
// code, through the memfd.
func TestDenyWriteExecute(t *testing.T) {
	const env = "JIT_TEST_MDWE"
	if os.Getenv(env) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDenyWriteExecute$", "-test.v")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		if errors.Is(err, unix.ENOEXEC) {
			t.Skip("an emulator that cannot start a child of its own architecture")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("kernel without PR_SET_MDWE")
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skipf("PR_SET_MDWE: %v", err)
	}
	if _, err := mapWith(mappers[:1], answer(t, 1)); !errors.Is(err, ErrNoExec) {
		t.Fatalf("anonymous memory became executable: %v", err)
	}
	sum, _ := mapped(t)
	checkSum(t, sum, 3)
}

// Fresh code at an address that held other code must run as itself.
func TestRewrite(t *testing.T) {
	for n := range 200 {
		c, err := Map(answer(t, n))
		if err != nil {
			t.Fatal(err)
		}
		x := int64(1)
		c.Call(unsafe.Pointer(&x))
		if x != int64(n+1) {
			t.Fatalf("code %d gave %d", n, x)
		}
		c.Free()
	}
}

func TestSafeCall(t *testing.T) {
	sum, copy8 := mapped(t)
	g, err := GuardBytes(40)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Free()
	b := g.Bytes()
	var dst [4]int64
	copyFrom := func(off int) error {
		return SafeCall(copy8, unsafe.Pointer(&sumArgs{unsafe.Add(g.Ptr(), off), unsafe.Pointer(&dst), 1}))
	}
	b[39] = 9
	if err := copyFrom(32); err != nil || dst[0]>>56 != 9 {
		t.Errorf("last bytes: %v, %#x", err, dst[0])
	}
	var fault *FaultError
	if err := copyFrom(40); !errors.As(err, &fault) || fault.Addr != uintptr(g.Ptr())+40 {
		t.Errorf("behind the end: %v", err)
	}
	if err := copyFrom(40 - pageSize - 8); !errors.As(err, &fault) {
		t.Errorf("page before: %v", err)
	}
	if err := SafeCall(copy8, unsafe.Pointer(&sumArgs{nil, unsafe.Pointer(&dst), 1})); !errors.As(err, &fault) {
		t.Errorf("nil: %v", err)
	}
	for range 100 { // the goroutine survives
		if copyFrom(36) == nil {
			t.Fatal("an access across the end passed")
		}
	}
	checkSum(t, sum, 10)
	defer func() {
		if recover() != "other" {
			t.Error("a foreign panic did not pass")
		}
	}()
	_ = SafeCall(func(unsafe.Pointer) { panic("other") }, nil)
}

// Generated code runs while goroutines allocate, grow stacks and are preempted, under the CPU
// profiler's signals.
func TestStress(t *testing.T) {
	sum, copy8 := mapped(t)
	if err := pprof.StartCPUProfile(io.Discard); err == nil {
		defer pprof.StopCPUProfile()
	}
	stop := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			g, err := GuardBytes(64)
			if err != nil {
				t.Error(err)
				return
			}
			defer g.Free()
			for n := 1; time.Now().Before(stop) && !t.Failed(); n++ {
				deep(n%200, func() { checkSum(t, sum, 1+n%3000) })
				if n%16 == 0 {
					var out int64
					bad := sumArgs{unsafe.Add(g.Ptr(), 64), unsafe.Pointer(&out), 1}
					if SafeCall(copy8, unsafe.Pointer(&bad)) == nil {
						t.Error("no fault")
					}
				}
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(stop) {
			runtime.GC()
			runtime.Gosched()
		}
	})
	wg.Wait()
}

// deep calls f below n frames, so that stacks grow and move.
//
//go:noinline
func deep(n int, f func()) byte {
	var pad [256]byte
	if n == 0 {
		f()
		return 0
	}
	pad[n] = deep(n-1, f)
	return pad[n]
}

func BenchmarkCall(b *testing.B) {
	c, err := Map(answer(b, 1))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Free()
	x := int64(0)
	for b.Loop() {
		c.Call(unsafe.Pointer(&x))
	}
}
