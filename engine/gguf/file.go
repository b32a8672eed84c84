package gguf

import (
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// File is an open checkpoint. It is safe for concurrent reading.
type File struct {
	Path    string // empty for Parse
	Version int
	KV      Meta
	Tensors []Tensor // in file order

	byName map[string]int
	mapped []byte
}

// Open maps a GGUF file and reads its header. Tensor data is not touched. The file must not shrink
// while it is open. Errors name the file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("gguf: %q is not a regular file", path)
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("gguf: %q: truncated: the file is empty", path)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("gguf: map %q: %w", path, err)
	}
	file, err := parse(b)
	if err != nil {
		unix.Munmap(b)
		return nil, fmt.Errorf("gguf: %q: %w", path, err)
	}
	file.Path, file.mapped = path, b
	return file, nil
}

// Close unmaps the file: Data of its tensors must not be used afterwards. Metadata read before stays
// valid. Closing twice is harmless.
func (f *File) Close() error {
	if f.mapped == nil {
		return nil
	}
	b := f.mapped
	f.mapped, f.Tensors, f.byName, f.KV = nil, nil, nil, Meta{}
	return unix.Munmap(b)
}

// Parse reads a whole checkpoint that lies in memory; tensors are slices of b.
func Parse(b []byte) (*File, error) {
	f, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}

func parse(b []byte) (*File, error) {
	c := &cursor{b: b}
	version, err := readVersion(c)
	if err != nil {
		return nil, err
	}
	tensors, err := c.u64("the tensor count")
	if err != nil {
		return nil, err
	}
	f := &File{Version: version}
	if f.KV, err = readMeta(c); err != nil {
		return nil, err
	}
	if err := f.refuseSplit(); err != nil {
		return nil, err
	}
	align, err := f.alignment()
	if err != nil {
		return nil, err
	}
	if err := f.readTensors(c, tensors, align); err != nil {
		return nil, err
	}
	return f, nil
}

func readVersion(c *cursor) (int, error) {
	m, err := c.take(4, "the magic")
	if err != nil {
		return 0, err
	}
	switch string(m) {
	case "GGUF":
	case "lmgg", "tjgg", "fmgg":
		return 0, fmt.Errorf("not a GGUF file: magic %q is that of an old ggml format; convert the model anew", m)
	case "FUGG":
		return 0, fmt.Errorf("not a GGUF file: magic %q, the bytes are swapped", m)
	default:
		return 0, fmt.Errorf("not a GGUF file: magic %q", m)
	}
	v, err := c.u32("the version")
	if err != nil {
		return 0, err
	}
	switch {
	case v == 2 || v == 3:
		return int(v), nil
	case v != 0 && v&0xffff == 0 && bits.ReverseBytes32(v) < 1<<16:
		return 0, fmt.Errorf("big-endian file (version %d): not supported", bits.ReverseBytes32(v))
	}
	return 0, fmt.Errorf("unsupported GGUF version %d (versions 2 and 3 are)", v)
}

func (f *File) refuseSplit() error {
	if n, err := f.KV.IntOr("split.count", 1, 0, 1<<16); err != nil {
		return err
	} else if n > 1 {
		return fmt.Errorf("one of %d parts of a split model: merge them first (llama-gguf-split --merge)", n)
	}
	return nil
}

// maxAlignment is far above any alignment in use (32, rarely 64 or a page).
const maxAlignment = 1 << 20

func (f *File) alignment() (uint64, error) {
	a, err := f.KV.UintOr("general.alignment", 32)
	if err != nil {
		return 0, err
	}
	if a < 8 || a > maxAlignment || bits.OnesCount64(a) != 1 {
		return 0, fmt.Errorf("general.alignment is %d: must be a power of two from 8 to %d", a, maxAlignment)
	}
	return a, nil
}
