package gguf

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tensor is one tensor of a file. Dims are in GGUF order: the first is the contiguous one, so a
// weight of N output channels and K inputs has Dims [K, N].
type Tensor struct {
	Name string
	Type Type
	Dims []int
	Data []byte // slice of the map; read only

	offset uint64
}

// K is the length of a row: the contiguous dimension.
func (t *Tensor) K() int {
	if len(t.Dims) == 0 {
		return 1
	}
	return t.Dims[0]
}

// N is the number of rows.
func (t *Tensor) N() int {
	n := 1
	for _, d := range t.Dims[min(1, len(t.Dims)):] {
		n *= d
	}
	return n
}

// Row returns the bytes of row n.
func (t *Tensor) Row(n int) []byte {
	size := t.Type.RowBytes(t.K())
	return t.Data[n*size : (n+1)*size]
}

// Tensor finds a tensor by name, nil if there is none.
func (f *File) Tensor(name string) *Tensor {
	if i, ok := f.byName[name]; ok {
		return &f.Tensors[i]
	}
	return nil
}

const (
	maxDims       = 4
	maxTensorName = 64
	minTensorInfo = 8 + 1 + 4 + 4 + 8 // name length, a name, dimension count, type, offset
)

func (f *File) readTensors(c *cursor, count, align uint64) error {
	if count > c.left()/minTensorInfo {
		return fmt.Errorf("the tensor count is %d, more than the %d bytes left can hold: corrupt or truncated", count, c.left())
	}
	if count == 0 {
		return fmt.Errorf("the model has no tensors")
	}
	f.byName = make(map[string]int, count)
	f.Tensors = make([]Tensor, 0, count)
	for i := range count {
		t, err := readInfo(c, i)
		if err != nil {
			return err
		}
		if _, dup := f.byName[t.Name]; dup {
			return fmt.Errorf("duplicate tensor name %q", t.Name)
		}
		f.byName[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	start := (uint64(c.off) + align - 1) &^ (align - 1)
	if start > uint64(len(c.b)) {
		return fmt.Errorf("truncated: the file ends at byte %d, before the tensor data at %d", len(c.b), start)
	}
	data := c.b[start:]
	for i := range f.Tensors {
		if err := f.Tensors[i].locate(data, align); err != nil {
			return err
		}
	}
	return f.checkOverlap()
}

func readInfo(c *cursor, i uint64) (Tensor, error) {
	what := fmt.Sprintf("the name of tensor %d", i)
	name, err := c.str(what)
	if err != nil {
		return Tensor{}, err
	}
	if err := checkName(name); err != nil {
		return Tensor{}, fmt.Errorf("%s: %w", what, err)
	}
	t := Tensor{Name: string(name)}
	what = fmt.Sprintf("the info of tensor %q", t.Name)
	dims, err := c.u32(what)
	if err != nil {
		return t, err
	}
	if dims > maxDims {
		return t, fmt.Errorf("tensor %q has %d dimensions: too many (at most %d)", t.Name, dims, maxDims)
	}
	for range dims {
		d, err := c.u64(what)
		if err != nil {
			return t, err
		}
		if d == 0 || d > 1<<48 {
			return t, fmt.Errorf("tensor %q: dimension %d is out of range", t.Name, d)
		}
		t.Dims = append(t.Dims, int(d))
	}
	typ, err := c.u32(what)
	if err != nil {
		return t, err
	}
	t.Type = Type(typ)
	t.offset, err = c.u64(what)
	return t, err
}

func checkName(name []byte) error {
	switch {
	case len(name) == 0:
		return fmt.Errorf("empty name")
	case len(name) > maxTensorName:
		return fmt.Errorf("name of %d bytes is too long (at most %d)", len(name), maxTensorName)
	case !utf8.Valid(name) || strings.ContainsFunc(string(name), unicode.IsControl):
		return fmt.Errorf("malformed name %q", name)
	}
	return nil
}

// bytes is the size of the tensor's data.
func (t *Tensor) bytes() (uint64, error) {
	info, ok := types[t.Type]
	if !ok {
		return 0, fmt.Errorf("tensor %q: unknown or unsupported tensor type %d", t.Name, uint32(t.Type))
	}
	if uint64(t.K())%info.block != 0 {
		return 0, fmt.Errorf("tensor %q: row length %d is not a multiple of the block size %d of %s", t.Name, t.K(), info.block, t.Type)
	}
	size := info.bytes
	overflow := fmt.Errorf("tensor %q: size overflows (dimensions %v of %s)", t.Name, t.Dims, t.Type)
	for i, d := range t.Dims {
		n := uint64(d)
		if i == 0 {
			n /= info.block
		}
		hi, lo := bits.Mul64(size, n)
		if hi != 0 || lo > 1<<62 {
			return 0, overflow
		}
		size = lo
	}
	return size, nil
}

func (t *Tensor) locate(data []byte, align uint64) error {
	size, err := t.bytes()
	if err != nil {
		return err
	}
	if t.offset%align != 0 {
		return fmt.Errorf("tensor %q: offset %d is not a multiple of the alignment %d", t.Name, t.offset, align)
	}
	if n := uint64(len(data)); t.offset > n || size > n-t.offset {
		return fmt.Errorf("tensor %q: data lies outside the file or the file is truncated: %d bytes at offset %d of %d", t.Name, size, t.offset, n)
	}
	t.Data = data[t.offset : t.offset+size : t.offset+size]
	return nil
}

// checkOverlap refuses tensors that share bytes: no writer makes such a file.
func (f *File) checkOverlap() error {
	order := make([]*Tensor, len(f.Tensors))
	for i := range f.Tensors {
		order[i] = &f.Tensors[i]
	}
	slices.SortFunc(order, func(a, b *Tensor) int {
		if a.offset < b.offset {
			return -1
		}
		return 1
	})
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if a.offset+uint64(len(a.Data)) > b.offset {
			return fmt.Errorf("tensors %q and %q overlap", a.Name, b.Name)
		}
	}
	return nil
}
