// Package mem hands out memory outside the Go heap: weights, KV cache, activations and argument
// blocks, which generated code reads and writes by address. It is private, anonymous and zero.
package mem

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hugePage = 2 << 20
	line     = 64
)

// Block is a mapping. Pages are reserved at once and take memory when first touched.
type Block struct {
	mapped []byte
	bytes  []byte
	used   int
}

// New maps n bytes, aligned to 2 MiB if huge, which also advises huge pages.
func New(n int, huge bool) (*Block, error) {
	n = max(n, 1)
	slack := 0
	if huge {
		slack = hugePage
	}
	m, err := unix.Mmap(-1, 0, n+slack, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB: %w", n>>20, err)
	}
	b := &Block{mapped: m, bytes: m[:n:n]}
	if huge {
		off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(m)))) & (hugePage - 1)
		b.bytes = m[off : off+n : off+n]
		// Advice only: without transparent huge pages everything works, with small ones.
		_ = unix.Madvise(m[off:], unix.MADV_HUGEPAGE)
	} else {
		_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE)
	}
	return b, nil
}

// Bytes is the whole block.
func (b *Block) Bytes() []byte { return b.bytes }

// Take cuts the next n bytes off the block, aligned to a cache line. It panics if the block is used
// up: sizes are computed with Room.
func (b *Block) Take(n int) []byte {
	end := b.used + Room(n)
	if end > len(b.bytes) {
		panic(fmt.Sprintf("mem: %d bytes of %d are used, %d more do not fit", b.used, len(b.bytes), n))
	}
	s := b.bytes[b.used : b.used+n : b.used+n]
	b.used = end
	return s
}

// Room is what Take of n bytes uses up.
func Room(n int) int { return (n + line - 1) / line * line }

// Free unmaps the block. Nothing may use it afterwards.
func (b *Block) Free() {
	if b != nil && b.mapped != nil {
		_ = unix.Munmap(b.mapped)
		b.mapped, b.bytes = nil, nil
	}
}

// Drop gives the pages of the block back; they read as zero again.
func (b *Block) Drop() { _ = unix.Madvise(b.bytes, unix.MADV_DONTNEED) }

// Addr is the address of the first byte, nil for an empty slice.
func Addr(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// Floats views bytes as float32.
func Floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(Addr(b)), len(b)/4)
}

// Of cuts a zero T off a block.
func Of[T any](b *Block) *T {
	var t T
	return (*T)(Addr(b.Take(int(unsafe.Sizeof(t)))))
}

// DropPages gives back the whole pages within b; they read as zero again.
func DropPages(b []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(Addr(b))) & (page - 1)
	if n := (len(b) - skip) / page * page; n > 0 {
		_ = unix.Madvise(b[skip:skip+n], unix.MADV_DONTNEED)
	}
}
