// Package kerneltest checks any artifact of any backend against the oracles of kernel/ref: random
// and extreme operands, ragged shapes, outputs filled with NaN beforehand, and everything that a
// kernel must leave alone compared afterwards. It reads an artifact's problem and Exec, never its
// config. Memory and calls go through interfaces, so that operands may lie before guard pages or in
// the image of an emulator.
package kerneltest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// Buffer is memory that a kernel can address: Mem as the test sees it, Addr as the kernel does.
type Buffer struct {
	Mem  []byte
	Addr uint64
}

// Allocator provides operands. Alloc returns n zero bytes aligned to 64, or placed to end at a guard
// page (then aligned as far as n is). Reset ends the life of all buffers and reports writes outside
// of them, if the allocator can tell.
type Allocator interface {
	Alloc(n int) (Buffer, error)
	Reset() error
}

// Runner calls an entry with the address of its argument block.
type Runner interface {
	Call(entry string, args Buffer) error
}

// Funcs runs entries in this process.
type Funcs map[string]kernel.Func

// Call implements Runner.
func (f Funcs) Call(entry string, args Buffer) error {
	fn := f[entry]
	if fn == nil {
		return fmt.Errorf("kerneltest: the artifact has no entry %q", entry)
	}
	fn(unsafe.Pointer(unsafe.SliceData(args.Mem)))
	return nil
}

// Heap allocates from the Go heap with canaries around every buffer.
type Heap struct{ blocks [][]byte }

const (
	canary      = 0xa5
	canaryBytes = 128
)

// Alloc implements Allocator.
func (h *Heap) Alloc(n int) (Buffer, error) {
	b := make([]byte, n+2*canaryBytes+64)
	skip := canaryBytes + int(-uintptr(unsafe.Pointer(&b[0]))&63)
	b = b[skip-canaryBytes : skip+n+canaryBytes]
	for i := range canaryBytes {
		b[i], b[len(b)-1-i] = canary, canary
	}
	h.blocks = append(h.blocks, b)
	mem := b[canaryBytes : canaryBytes+n : canaryBytes+n]
	return Buffer{mem, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))}, nil
}

// Reset implements Allocator.
func (h *Heap) Reset() error {
	defer func() { h.blocks = nil }()
	for _, b := range h.blocks {
		for i := range canaryBytes {
			if b[i] != canary || b[len(b)-1-i] != canary {
				return fmt.Errorf("kerneltest: write within %d bytes around a buffer of %d bytes", canaryBytes, len(b)-2*canaryBytes)
			}
		}
	}
	return nil
}

// TB is the part of testing.TB that the harness needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Test is Check, and Golden, for tests: each op has a function of the same form.
func Test(t TB, mem Allocator, run Runner, a *kernel.Artifact) {
	t.Helper()
	if err := errors.Join(Check(mem, run, a), Golden(mem, run, a)); err != nil {
		t.Errorf("%s [%s] %s: %v", a.Key.Problem, a.Key.Config, a.Key.Backend.Name, err)
	}
}

// Check runs an artifact on every case of its op and reports those that fail.
func Check(mem Allocator, run Runner, a *kernel.Artifact) error {
	checks := map[kernel.Op]func(*bench) []error{
		kernel.OpLinear: (*bench).linear, kernel.OpQuant: (*bench).quant, kernel.OpRope: (*bench).rope,
		kernel.OpAttn: (*bench).attn, kernel.OpScale: (*bench).scale, kernel.OpPack: (*bench).pack,
		kernel.OpStream: (*bench).stream, kernel.OpPeak: (*bench).peak,
	}
	check := checks[a.Key.Problem.Op]
	if check == nil {
		return fmt.Errorf("kerneltest: no checks of op %q", a.Key.Problem.Op)
	}
	return errors.Join(check(newBench(mem, run, a))...)
}

func newBench(mem Allocator, run Runner, a *kernel.Artifact) *bench {
	return &bench{mem: mem, run: run, p: a.Key.Problem, e: a.Exec, entries: a.Entries, r: rand.New(rand.NewPCG(1, 2))}
}

// bench is one artifact under test. The first failure to allocate or to call sticks in err.
type bench struct {
	mem Allocator
	run Runner
	p   kernel.Problem
	e   kernel.Exec
	r   *rand.Rand
	err error

	entries map[string]int

	every int // OpAttn, in the quick check: rows are compared by so many
}

// try runs one case on fresh memory and names its failure.
func (b *bench) try(errs *[]error, name string, f func() error) {
	b.err = nil
	err := f()
	if b.err != nil {
		err = b.err
	}
	if err := errors.Join(err, b.mem.Reset()); err != nil {
		*errs = append(*errs, fmt.Errorf("case %s: %w", name, err))
	}
}

// alloc returns n bytes, or memory that no kernel sees once a case has failed or for n = 0.
func (b *bench) alloc(n int) Buffer {
	if b.err != nil || n == 0 {
		return Buffer{Mem: make([]byte, n)}
	}
	buf, err := b.mem.Alloc(n)
	if err != nil {
		b.err = err
		return Buffer{Mem: make([]byte, n)}
	}
	return buf
}

// put copies values to a buffer of their size.
func put[T any](b *bench, v []T) Buffer {
	var zero T
	buf := b.alloc(len(v) * int(unsafe.Sizeof(zero)))
	copy(as[T](buf), v)
	return buf
}

// fill is a buffer of n bytes of 0xff: NaN as f32, f16 and bf16, an improbable code and sum.
func (b *bench) fill(n int) Buffer {
	buf := b.alloc(n)
	for i := range buf.Mem {
		buf.Mem[i] = 0xff
	}
	return buf
}

// call writes an argument block, fields of eight bytes in order, and runs an entry.
func (b *bench) call(entry string, fields ...uint64) {
	args := put(b, fields)
	if b.err == nil {
		b.err = b.run.Call(entry, args)
	}
}

// as views a buffer as values.
func as[T any](buf Buffer) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf.Mem))), len(buf.Mem)/int(unsafe.Sizeof(zero)))
}

// at is the address off bytes into a buffer.
func (b Buffer) at(off int) uint64 { return b.Addr + uint64(off) }

// normals are n normally distributed values times scale.
func (b *bench) normals(n int, scale float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(b.r.NormFloat64() * scale)
	}
	return out
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// within reports a value farther than tol from the wanted one; NaN is far from everything.
func within(got, want, tol float64) error {
	if d := math.Abs(got - want); !(d <= tol) {
		return fmt.Errorf("got %g, want %g within %.3g", got, want, tol)
	}
	return nil
}

// unchanged reports an input that a kernel wrote to.
func unchanged[T comparable](name string, buf Buffer, was []T) error {
	for i, v := range as[T](buf)[:len(was)] {
		if v != was[i] && was[i] == was[i] {
			return fmt.Errorf("input %s was overwritten at element %d", name, i)
		}
	}
	return nil
}
