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

	"github.com/tilewright/tilewright/internal/bochs"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
)

// isas are the instruction sets under test and whether this machine runs them.
var isas = []struct {
	isa    ISA
	native bool
}{
	{AVX2, cpu.X86.HasAVX2 && cpu.X86.HasFMA},
	{AVXVNNI, cpu.X86.HasAVXVNNI && cpu.X86.HasAVX2 && cpu.X86.HasFMA},
	{AVX512, cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI},
}

// rig runs the calls of a test on this machine at once, or on the emulator all together at the end;
// what the test has to say of a call's results goes to check.
type rig struct {
	testing.TB
	isa    ISA
	batch  *bochs.Batch // nil on this machine
	bufs   []any        // made since the last call
	size   int          // bytes of code and buffers of the batch, roughly
	checks []func() error
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

// eachRig runs f for every ISA, on the emulator if this machine does not run it. AVXVNNI is AVX2 there: see
// TestVNNIDiffersInDots.
func eachRig(t *testing.T, f func(r *rig)) {
	for _, s := range isas {
		t.Run(s.isa.Name, func(t *testing.T) {
			r := &rig{TB: t, isa: s.isa}
			if !s.native && s.isa.Name == AVXVNNI.Name {
				t.Skipf("neither this CPU nor the emulator runs %s", s.isa.Name)
			}
			if !s.native {
				bochs.Need(t)
				r.batch = &bochs.Batch{}
			}
			f(r)
			r.finish()
		})
	}
}

// finish runs the calls on the emulator and checks them.
func (r *rig) finish() {
	if r.batch == nil {
		return
	}
	r.batch.RunTest(r.TB)
	for _, c := range r.checks {
		if err := c(); err != nil {
			r.Fatal(err)
		}
	}
}

// next is called between cases that share no memory; it keeps batches of the emulator small.
func (r *rig) next() {
	if r.batch != nil && r.size > 32<<20 {
		r.finish()
		r.batch, r.checks, r.size = &bochs.Batch{}, nil, 0
	}
}

// check looks at the results of the calls so far; errors name what was called.
func (r *rig) check(f func() error) {
	if r.batch != nil {
		r.checks = append(r.checks, f)
		return
	}
	r.Helper()
	if err := f(); err != nil {
		r.Fatal(err)
	}
}

// thin reports whether to leave out case i: the emulator runs one in n.
func (r *rig) thin(i, n int) bool { return r.batch != nil && i%n != 0 }

// call enters code at its start with the argument block of an op.
func (r *rig) call(code []byte, op kernel.Op, args unsafe.Pointer) {
	var block any
	switch op {
	case kernel.OpQuant:
		block = (*kernel.QuantArgs)(args)
	case kernel.OpRope:
		block = (*kernel.RopeArgs)(args)
	case kernel.OpAttn:
		block = (*kernel.AttnArgs)(args)
	case kernel.OpPack:
		block = (*kernel.PackArgs)(args)
	default:
		block = (*kernel.ScaleArgs)(args)
	}
	r.callAt(code, 0, block)
}

// callAt enters code with an argument block.
func (r *rig) callAt(code []byte, at int, block any) {
	if _, err := r.batch.Call(code, at, block, r.bufs...); err != nil {
		r.Fatal(err)
	}
	r.bufs = nil
	r.size += len(code)
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

// emitted makes the callable entry of a configuration, default if c is nil. t may be a rig.
func emitted(t testing.TB, isa ISA, p kernel.Problem, c kernel.Config) (func(unsafe.Pointer), kernel.Exec) {
	t.Helper()
	art := artifactOf(t, isa, p, c)
	if r, ok := t.(*rig); ok && r.batch != nil {
		return func(args unsafe.Pointer) { r.call(art.Code, p.Op, args) }, art.Exec
	}
	return mapped(t, art.Code), art.Exec
}

// emittedRows makes the callable entry "rows" of an OpRope.
func emittedRows(t testing.TB, isa ISA, p kernel.Problem) (func(unsafe.Pointer), kernel.Exec) {
	t.Helper()
	art := artifactOf(t, isa, p, nil)
	at, ok := art.Entries[kernel.EntryRows]
	if !ok {
		t.Fatalf("%s has no entry %q", p, kernel.EntryRows)
	}
	if r, ok := t.(*rig); ok && r.batch != nil {
		return func(args unsafe.Pointer) { r.callAt(art.Code, at, (*kernel.RopeRowsArgs)(args)) }, art.Exec
	}
	m, err := jit.Map(art.Code)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return func(args unsafe.Pointer) { jit.Call0(m.Entry+uintptr(at), args) }, art.Exec
}

// artifactOf emits a configuration, the default one if c is nil.
func artifactOf(t testing.TB, isa ISA, p kernel.Problem, c kernel.Config) *kernel.Artifact {
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
	return art
}

// mapped makes code callable in this process.
func mapped(t testing.TB, code []byte) func(unsafe.Pointer) {
	t.Helper()
	m, err := jit.Map(code)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m.Call
}

// guarded returns n elements that end where an inaccessible page begins; before them lies another.
func guarded[T any](t testing.TB, n int) []T {
	t.Helper()
	if r, ok := t.(*rig); ok && r.batch != nil {
		s := make([]T, n)
		r.bufs = append(r.bufs, s)
		r.size += 4096 + n*int(unsafe.Sizeof(*new(T)))
		return s
	}
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

// ptr is the address of the first element, nil if there is none.
func ptr[T any](s []T) unsafe.Pointer { return ptrAt(s, 0) }

// ptrAt is the address of element i, nil if there is none.
func ptrAt[T any](s []T, i int) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(&s[i])
}

// one is a guarded single value.
func one[T any](t testing.TB, v T) unsafe.Pointer {
	s := guarded[T](t, 1)
	s[0] = v
	return ptr(s)
}

// newArgs puts an argument block outside the Go heap (the emulator copies it).
func newArgs[T any](t testing.TB, v T) (*T, unsafe.Pointer) {
	if r, ok := t.(*rig); ok && r.batch != nil {
		return &v, unsafe.Pointer(&v)
	}
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
