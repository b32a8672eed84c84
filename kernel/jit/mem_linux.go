package jit

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

var pageSize = os.Getpagesize()

// HugePage is the alignment of Alloc: a transparent huge page of amd64, and of arm64 with 4 KiB
// pages.
const HugePage = 2 << 20

// Mem is memory off the Go heap. The garbage collector neither moves nor frees nor scans it.
type Mem struct {
	b    []byte
	free func() error
}

// Bytes is the memory; it must not be used after Free.
func (m *Mem) Bytes() []byte { return m.b }

// Ptr is the address of the first byte.
func (m *Mem) Ptr() unsafe.Pointer { return unsafe.Pointer(&m.b[0]) }

// Free returns the memory to the system, at most once.
func (m *Mem) Free() { _ = m.free() }

// anon maps n bytes, a multiple of the page size, private and anonymous.
func anon(n, prot int) (unsafe.Pointer, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), prot, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("jit: mmap of %d bytes: %w", n, err)
	}
	return p, nil
}

// Alloc returns n zero bytes, private and anonymous, that start at a multiple of HugePage. Pages
// come into being at first touch, on the NUMA node of the thread that touches them. huge asks for
// transparent huge pages; else they are declined, so that resident memory follows use. Both are
// advice: a kernel without THP ignores it.
func Alloc(n int, huge bool) (*Mem, error) {
	if n <= 0 || n > math.MaxInt-2*HugePage {
		return nil, fmt.Errorf("jit: allocation of %d bytes", n)
	}
	size := roundUp(n, pageSize)
	p, err := anon(size+HugePage, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	head := int(-uintptr(p) & (HugePage - 1))
	base := unsafe.Add(p, head)
	err = errors.Join(unmap(p, head), unmap(unsafe.Add(base, size), HugePage-head))
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	b := unsafe.Slice((*byte)(base), size)
	if e := unix.Madvise(b, advice); e != nil && e != unix.EINVAL {
		err = errors.Join(err, fmt.Errorf("jit: madvise: %w", e))
	}
	free := func() error { return unmap(base, size) }
	if err != nil {
		return nil, errors.Join(err, free())
	}
	return &Mem{b[:n:n], sync.OnceValue(free)}, nil
}

func unmap(p unsafe.Pointer, n int) error {
	if n == 0 {
		return nil
	}
	return unix.MunmapPtr(p, uintptr(n))
}

// GuardBytes returns n bytes that end exactly where a page without access begins; another lies
// before the page of the first byte. Tests of kernels use it: an access behind the end faults.
func GuardBytes(n int) (*Mem, error) {
	if n <= 0 || n > math.MaxInt-4*pageSize {
		return nil, fmt.Errorf("jit: guarded allocation of %d bytes", n)
	}
	size := roundUp(n, pageSize)
	total := size + 2*pageSize
	p, err := anon(total, unix.PROT_NONE)
	if err != nil {
		return nil, err
	}
	free := func() error { return unmap(p, total) }
	b := unsafe.Slice((*byte)(unsafe.Add(p, pageSize)), size)
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, errors.Join(fmt.Errorf("jit: mprotect: %w", err), free())
	}
	return &Mem{b[size-n:], sync.OnceValue(free)}, nil
}
