package ref

import (
	"fmt"

	"github.com/tilewright/tilewright/kernel"
)

// Matrix is an N x K weight matrix in plain form, row-major: what a loader makes of a source, and
// what the oracle reads.
type Matrix struct {
	N, K    int
	Format  kernel.Format
	Codes   []uint8   // [N][K] unsigned codes; nil for float formats
	Scales  []uint16  // [N][K/Group] bits of Format.Scale
	Offsets []uint16  // [N][K/Group] bits of Format.Scale, if Format.Offset
	Floats  []float32 // [N][K] for float formats; Pack rounds them to 16 bits if Format says so
}

// NewMatrix allocates a zero matrix of a format.
func NewMatrix(f kernel.Format, n, k int) (*Matrix, error) {
	if err := check(f, k); err != nil {
		return nil, err
	}
	w := &Matrix{N: n, K: k, Format: f}
	if f.IsFloat() {
		w.Floats = make([]float32, n*k)
		return w, nil
	}
	w.Codes = make([]uint8, n*k)
	w.Scales = make([]uint16, n*k/f.Group)
	if f.Offset {
		w.Offsets = make([]uint16, n*k/f.Group)
	}
	return w, nil
}

// At is the weight of channel n at position k.
func (w *Matrix) At(n, k int) float64 {
	f := w.Format
	if f.IsFloat() {
		v := w.Floats[n*w.K+k]
		if f.Bits == 16 {
			v = ScaleToF32(f.Scale, F32ToScale(f.Scale, v))
		}
		return float64(v)
	}
	g := (n*w.K + k) / f.Group
	v := float64(ScaleToF32(f.Scale, w.Scales[g])) * float64(int(w.Codes[n*w.K+k])-f.Bias)
	if f.Offset {
		v += float64(ScaleToF32(f.Scale, w.Offsets[g]))
	}
	return v
}

// Validate reports slices that do not fit the shape, and codes that do not fit the format.
func (w *Matrix) Validate() error {
	f := w.Format
	if err := check(f, w.K); err != nil {
		return err
	}
	want := func(name string, have, n int) error {
		if have != n {
			return fmt.Errorf("ref: %s of a %d x %d matrix of %s: have %d values, want %d", name, w.N, w.K, f, have, n)
		}
		return nil
	}
	if f.IsFloat() {
		return want("weights", len(w.Floats), w.N*w.K)
	}
	offsets := 0
	if f.Offset {
		offsets = w.N * w.K / f.Group
	}
	for _, err := range []error{
		want("codes", len(w.Codes), w.N*w.K),
		want("scales", len(w.Scales), w.N*w.K/f.Group),
		want("offsets", len(w.Offsets), offsets),
	} {
		if err != nil {
			return err
		}
	}
	for i, c := range w.Codes {
		if int(c)>>f.Bits != 0 {
			return fmt.Errorf("ref: code %d at channel %d, position %d does not fit %d bits", c, i/w.K, i%w.K, f.Bits)
		}
	}
	return nil
}

// check reports why a row of k weights of a format cannot be packed here.
func check(f kernel.Format, k int) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if f.Bits == 6 || f.Super != kernel.SuperNone {
		return fmt.Errorf("%w: format %s has no portable kernel", kernel.ErrUnsupported, f)
	}
	unit := 32 / f.Bits
	if !f.IsFloat() {
		unit = f.Group
	}
	if k <= 0 || k%unit != 0 {
		return fmt.Errorf("%w: K = %d of format %s must be a positive multiple of %d", kernel.ErrUnsupported, k, f, unit)
	}
	return nil
}
