// Package probe runs one artifact alone, against the oracle and between guard pages. It is meant for
// a disposable process: an illegal instruction ends it, which is an answer.
package probe

import (
	"fmt"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// Check reports wrong numbers, writes outside of the operands and faults, on every case of the op.
func Check(a *kernel.Artifact) error { return safely(a, &guarded{}, kerneltest.Check) }

// Golden is the quick check of an artifact that was found on disk, before its first use.
func Golden(a *kernel.Artifact) error { return safely(a, &kerneltest.Heap{}, kerneltest.Golden) }

func safely(a *kernel.Artifact, mem kerneltest.Allocator,
	check func(kerneltest.Allocator, kerneltest.Runner, *kernel.Artifact) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("fault in generated code: %v", r)
		}
	}()
	entries, free, err := exec.Entries(a)
	if err != nil {
		return err
	}
	defer free()
	return check(mem, kerneltest.Funcs(entries), a)
}

// guarded allocates each operand so that it ends at a page that cannot be touched.
type guarded struct{ maps [][]byte }

// Alloc implements kerneltest.Allocator.
func (g *guarded) Alloc(n int) (kerneltest.Buffer, error) {
	page := unix.Getpagesize()
	body := (n + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, body+2*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return kerneltest.Buffer{}, err
	}
	g.maps = append(g.maps, m)
	if body > 0 {
		if err := unix.Mprotect(m[page:page+body], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return kerneltest.Buffer{}, err
		}
	}
	mem := m[page+body-n : page+body : page+body]
	return kerneltest.Buffer{Mem: mem, Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))}, nil
}

// Reset implements kerneltest.Allocator.
func (g *guarded) Reset() error {
	for _, m := range g.maps {
		_ = unix.Munmap(m)
	}
	g.maps = nil
	return nil
}
