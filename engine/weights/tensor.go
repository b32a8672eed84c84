// Package weights holds packed weight matrices: where their panels lie, how they are shared out
// between workers, and how they are filled from a checkpoint, from another layout, or with
// pseudo-random numbers.
package weights

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Tensor is a packed N x K matrix, off the Go heap.
type Tensor struct {
	model.Segment
	Layout kernel.Layout
	Codes  []byte // panel by panel
	Scales []byte // panel by panel; empty for floats

	Panels     int
	PanelBytes int // codes of a panel
	ScaleBytes int // scales of a panel
}

// NewTensor sizes a tensor; Place gives it memory.
func NewTensor(s model.Segment, l kernel.Layout) (*Tensor, error) {
	if err := l.Validate(s.Format); err != nil {
		return nil, err
	}
	if unit := s.Format.Unit(); s.K%unit != 0 {
		return nil, fmt.Errorf("%s: K = %d is not a multiple of %d, as %s needs", s.Role, s.K, unit, s.Format)
	}
	return &Tensor{Segment: s, Layout: l, Panels: l.Panels(s.N),
		PanelBytes: l.PanelBytes(s.Format, s.K), ScaleBytes: l.ScaleBytes(s.Format, s.K)}, nil
}

// Room is the memory that Place takes from a block.
func (t *Tensor) Room() int {
	return mem.Room(t.Panels*t.PanelBytes) + mem.Room(t.Panels*t.ScaleBytes)
}

// Place cuts the tensor's memory off a block.
func (t *Tensor) Place(b *mem.Block) {
	t.Codes = b.Take(t.Panels * t.PanelBytes)
	t.Scales = b.Take(t.Panels * t.ScaleBytes)
}

// Bytes is the size of codes and scales.
func (t *Tensor) Bytes() int { return t.Panels * t.Stride() }

// Stride is the bytes of codes and scales of one panel.
func (t *Tensor) Stride() int { return t.PanelBytes + t.ScaleBytes }

// Panel returns the addresses of the codes and scales of a panel.
func (t *Tensor) Panel(p int) (codes, scales unsafe.Pointer) {
	codes = unsafe.Add(mem.Addr(t.Codes), p*t.PanelBytes)
	if t.ScaleBytes > 0 {
		scales = unsafe.Add(mem.Addr(t.Scales), p*t.ScaleBytes)
	}
	return codes, scales
}

func (t *Tensor) panel(p int) (codes, scales []byte) {
	return t.Codes[p*t.PanelBytes : (p+1)*t.PanelBytes], t.Scales[p*t.ScaleBytes : (p+1)*t.ScaleBytes]
}

// Row dequantises channel n into dst (K values).
func (t *Tensor) Row(n int, dst []float32) error {
	return ref.Row(dst, t.Layout, t.Format, t.Codes, t.Scales, n)
}

// PaddedN is N rounded up to whole panels.
func (t *Tensor) PaddedN() int { return t.Panels * t.Layout.NR() }

// Bound is where the share of worker w of n ends and that of w begins, when the panels of several
// tensors, one after another, are split by bytes: a tensor and a panel in it, a multiple of
// unit(tensor) unless it is the end.
func Bound(ts []*Tensor, unit func(i int) int, w, n int) (i, panel int) {
	total := 0
	for _, t := range ts {
		total += t.Bytes()
	}
	left := total * w / n
	for i, t := range ts {
		if left < t.Bytes() {
			u := unit(i)
			return i, min(t.Panels, (left+t.Stride()*u/2)/(t.Stride()*u)*u)
		}
		left -= t.Bytes()
	}
	return len(ts), 0
}

// Share calls f for each range of panels lo <= p < hi of tensor i that worker w of n owns.
func Share(ts []*Tensor, unit func(i int) int, w, n int, f func(i, lo, hi int)) {
	i, lo := Bound(ts, unit, w, n)
	end, last := Bound(ts, unit, w+1, n)
	for ; i < len(ts) && i <= end; i++ {
		hi := ts[i].Panels
		if i == end {
			hi = last
		}
		if lo < hi {
			f(i, lo, hi)
		}
		lo = 0
	}
}
