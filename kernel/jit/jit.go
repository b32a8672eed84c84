// Package jit owns what generated code needs from the machine: executable memory (written, then
// executed, never both), the trampoline that enters it without cgo, memory off the Go heap, guard
// pages, and the placement of threads.
//
// Generated code obeys the leaf/2 ABI of package kernel: it never moves the stack pointer, so that
// the runtime sees a fault in it as a fault of the trampoline, and it returns within 200 us, because
// neither the garbage collector nor the scheduler can interrupt it.
package jit

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// ErrNoExec is wrapped by Map where the system refuses executable memory altogether (SELinux
// execmem, MemoryDenyWriteExecute). Callers fall back to portable kernels.
var ErrNoExec = errors.New("the system refuses executable memory")

// Code is mapped machine code. It is safe for concurrent calls.
type Code struct {
	Entry uintptr // address of the first byte
	Size  int     // bytes of code

	entries map[string]int
	free    func() error
}

// Map makes a copy of code executable. The copy starts at a page boundary.
func Map(code []byte) (*Code, error) { return mapWith(mappers, code) }

// MapArtifact maps the code of an artifact of kind "code", whose entries Func then finds.
func MapArtifact(a *kernel.Artifact) (*Code, error) {
	if a.Kind != kernel.KindCode || a.Key.ABI != kernel.ABILeaf {
		return nil, fmt.Errorf("jit: artifact of %s: kind %q, ABI %q: only %q, %q can be mapped",
			a.Key.Problem, a.Kind, a.Key.ABI, kernel.KindCode, kernel.ABILeaf)
	}
	for n, off := range a.Entries {
		if off < 0 || off >= len(a.Code) {
			return nil, fmt.Errorf("jit: artifact of %s: entry %q at %d, outside %d bytes of code", a.Key.Problem, n, off, len(a.Code))
		}
	}
	c, err := Map(a.Code)
	if err != nil {
		return nil, fmt.Errorf("artifact of %s: %w", a.Key.Problem, err)
	}
	c.entries = maps.Clone(a.Entries)
	return c, nil
}

// mapper maps code, readable and executable, and returns its address and how to unmap it.
type mapper struct {
	name string
	do   func(code []byte) (addr unsafe.Pointer, free func() error, err error)
}

// mapWith tries mappers in order.
func mapWith(ways []mapper, code []byte) (*Code, error) {
	if len(code) == 0 {
		return nil, errors.New("jit: no code to map")
	}
	refused := ErrNoExec
	for _, w := range ways {
		p, free, err := w.do(code)
		if err != nil {
			refused = fmt.Errorf("%w; %s: %w", refused, w.name, err)
			continue
		}
		return &Code{Entry: uintptr(p), Size: len(code), free: sync.OnceValue(free)}, nil
	}
	return nil, fmt.Errorf("jit: %w", refused)
}

// Free unmaps the code, at most once. No Func of it may run or be called any more.
func (c *Code) Free() { _ = c.free() }

// Func returns a named entry of a mapped artifact.
func (c *Code) Func(entry string) (kernel.Func, bool) {
	off, ok := c.entries[entry]
	if !ok {
		return nil, false
	}
	at := c.Entry + uintptr(off)
	return func(args unsafe.Pointer) { call(at, args) }, true
}

// Call enters the code at its first byte. args, and all that it points to, must stay alive and in
// place: off the Go heap, or pinned, or reached through unsafe.Pointer fields of a live block.
func (c *Code) Call(args unsafe.Pointer) { call(c.Entry, args) }

// Call0 enters code at an address within a mapped Code, as Code.Call does.
func Call0(entry uintptr, args unsafe.Pointer) { call(entry, args) }

// call is the trampoline: args in the first integer argument register.
//
//go:noescape
func call(entry uintptr, args unsafe.Pointer)

// Pause tells the CPU n times (n > 0) that the thread spins.
func Pause(n int)

// Rdtsc reads the CPU's cheap monotonic counter: the time stamp counter on amd64, the virtual
// counter on arm64. Its frequency is that of neither the core nor a nanosecond clock.
func Rdtsc() uint64
