package ref

import (
	"fmt"

	"github.com/tilewright/tilewright/kernel"
)

// Matrix is an N x K weight matrix in plain form, row-major: what a loader makes of a source, and
// what the oracle reads.
type Matrix struct {
	N, K            int
	Format          kernel.Format
	Codes           []uint8   // [N][K] unsigned codes; nil for float formats
	kernel.ScaleSet           // of N rows
	Floats          []float32 // [N][K] for float formats; Pack rounds them to 16 bits if Format says so
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
	w.ScaleSet = f.NewScaleSet(n * k)
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
	s, m := w.Scale(n, k)
	return s*float64(int(w.Codes[n*w.K+k])-f.Bias) + m
}

// row is all of channel n; a group's scale is taken once.
func (w *Matrix) row(dst []float64, n int) {
	f := w.Format
	if f.IsFloat() {
		for k := range dst {
			dst[k] = w.At(n, k)
		}
		return
	}
	for k := 0; k < w.K; k += f.Group {
		s, m := w.Scale(n, k)
		for i, q := range w.Codes[n*w.K+k:][:f.Group] {
			dst[k+i] = s*float64(int(q)-f.Bias) + m
		}
	}
}

// Scale is the scale and the offset of channel n at position k.
func (w *Matrix) Scale(n, k int) (s, m float64) {
	f, at := w.Format, n*w.K+k
	s = float64(ScaleToF32(f.Scale, w.Scales[at/f.ScaleGroup()]))
	if f.Offset {
		m = float64(ScaleToF32(f.Scale, w.Offsets[at/f.ScaleGroup()]))
	}
	switch f.Super {
	case kernel.SuperQ4K:
		return s * float64(w.Subs[at/f.Group]), m * float64(w.SubOffsets[at/f.Group])
	case kernel.SuperQ6K:
		return s * float64(int8(w.Subs[at/f.Group])), m
	}
	return s, m
}

// Validate reports slices that do not fit the shape, and codes that do not fit the format.
func (w *Matrix) Validate() error {
	f := w.Format
	if err := check(f, w.K); err != nil {
		return err
	}
	if n := len(w.Codes) + len(w.Floats); n != w.N*w.K {
		return fmt.Errorf("ref: a %d x %d matrix of %s has %d weights, want %d", w.N, w.K, f, n, w.N*w.K)
	}
	if f.IsFloat() {
		return nil
	}
	if !w.Fits(f, w.N*w.K) {
		return fmt.Errorf("ref: scales do not fit a %d x %d matrix of %s: have %d, %d offsets, %d and %d of 8 bits",
			w.N, w.K, f, len(w.Scales), len(w.Offsets), len(w.Subs), len(w.SubOffsets))
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
	if unit := f.Unit(); k <= 0 || k%unit != 0 {
		return fmt.Errorf("%w: K = %d of format %s must be a positive multiple of %d", kernel.ErrUnsupported, k, f, unit)
	}
	return nil
}
