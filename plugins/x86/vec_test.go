package x86

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
)

// isas are the instruction sets under test and whether this machine runs them.
var isas = []struct {
	isa    ISA
	native bool
}{
	{AVX2, cpu.X86.HasAVX2 && cpu.X86.HasFMA},
	{AVX512, cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI},
}

// eachISA runs f for every ISA that this machine runs.
func eachISA(t *testing.T, f func(t *testing.T, isa ISA)) {
	for _, s := range isas {
		t.Run(s.isa.Name, func(t *testing.T) {
			if !s.native {
				t.Skipf("this CPU does not run %s", s.isa.Name)
			}
			f(t, s.isa)
		})
	}
}

// configs lists configurations of a space worth a test: the default, and each value of each
// parameter in a configuration near it that the space allows.
func configs(s kernel.Space) []kernel.Config {
	out := []kernel.Config{s.Default()}
	for _, p := range s.Params {
		for _, v := range p.Values {
			c := s.Default()
			c[p.Name] = v
			for _, q := range s.Params { // make room
				if q.Name != p.Name && s.Check(c) != nil {
					c[q.Name] = q.Values[0]
				}
			}
			if v != p.Default && s.Check(c) == nil {
				out = append(out, c)
			}
		}
	}
	return out
}

// emitted makes the callable entry of a configuration, default if c is nil.
func emitted(t testing.TB, isa ISA, p kernel.Problem, c kernel.Config) (func(unsafe.Pointer), kernel.Exec) {
	t.Helper()
	b, host := Backend{ISA: isa, ID: kernel.BackendID{Name: isa.Name}}, isa.Features
	if c == nil {
		s, err := b.Space(context.Background(), host, p)
		if err != nil {
			t.Fatal(err)
		}
		c = s.Default()
	}
	art, err := b.Emit(context.Background(), host, p, c)
	if err != nil {
		t.Fatal(err)
	}
	code, err := jit.Map(art.Code)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(code.Free)
	return code.Call, art.Exec
}

// guarded returns n elements that end where an inaccessible page begins; before them lies another.
func guarded[T any](t testing.TB, n int) []T {
	t.Helper()
	const page = 4096
	size := n * int(unsafe.Sizeof(*new(T)))
	pages := (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, pages+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	for _, at := range []int{0, page + pages} {
		if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&m[page+pages-size])), n)
}

// ptr is the address of the first element.
func ptr[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// one is a guarded single value.
func one[T any](t testing.TB, v T) unsafe.Pointer {
	s := guarded[T](t, 1)
	s[0] = v
	return ptr(s)
}

// newArgs puts an argument block outside the Go heap.
func newArgs[T any](t testing.TB, v T) (*T, unsafe.Pointer) {
	s := guarded[T](t, 1)
	s[0] = v
	return &s[0], ptr(s)
}

// normals is n guarded normal numbers times a factor.
func normals(t testing.TB, rng *rand.Rand, n int, factor float32) []float32 {
	x := guarded[float32](t, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * factor
	}
	return x
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// near reports the first value that is off by more than rel of the largest magnitude of want.
func near(got, want []float64, rel float64) error {
	top := 0.0
	for _, v := range want {
		top = max(top, math.Abs(v))
	}
	for i, v := range want {
		if d := math.Abs(got[i] - v); !(d <= rel*top) {
			return fmt.Errorf("[%d] = %g, want %g (off by %.2g of the largest, %g)", i, got[i], v, d/top, top)
		}
	}
	return nil
}
