package gguf

import (
	"encoding/binary"
	"fmt"
)

// cursor reads little-endian values from b and reports what was being read when bytes ran out.
type cursor struct {
	b   []byte
	off int
}

func (c *cursor) left() uint64 { return uint64(len(c.b) - c.off) }

// take returns the next n bytes without copying them.
func (c *cursor) take(n uint64, what string) ([]byte, error) {
	if n > c.left() {
		return nil, fmt.Errorf("truncated or corrupt: %s at byte %d needs %d bytes, %d are left", what, c.off, n, c.left())
	}
	p := c.b[c.off : c.off+int(n) : c.off+int(n)]
	c.off += int(n)
	return p, nil
}

func (c *cursor) u32(what string) (uint32, error) {
	p, err := c.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(p), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	p, err := c.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(p), nil
}

// str returns the bytes of a length-prefixed string.
func (c *cursor) str(what string) ([]byte, error) {
	n, err := c.u64("the length of " + what)
	if err != nil {
		return nil, err
	}
	return c.take(n, what)
}

// count reads a count of items that take at least size bytes each.
func (c *cursor) count(what string, size uint64) (uint64, error) {
	n, err := c.u64(what)
	if err != nil {
		return 0, err
	}
	if n > c.left()/size {
		return 0, fmt.Errorf("%s is %d, more than the %d bytes left can hold: corrupt or truncated", what, n, c.left())
	}
	return n, nil
}
