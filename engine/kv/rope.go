package kv

import (
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
)

// ropeStep is how many positions of a table are computed at a time.
const ropeStep = 64

// RopeTable holds cosines and sines by position, computed in float64 as positions are reached.
type RopeTable struct {
	rope model.Rope
	size int // floats of one position: cosines, then sines
	have int
	max  int
	buf  *mem.Block
}

// NewRopeTable reserves a table for context positions.
func NewRopeTable(r model.Rope, context int) (*RopeTable, error) {
	size := 2 * len(r.Freqs)
	b, err := mem.New(4*size*context, false)
	if err != nil {
		return nil, err
	}
	return &RopeTable{rope: r, size: size, buf: b, max: context}, nil
}

// Reach computes the table up to position n-1.
func (t *RopeTable) Reach(n int) {
	if n <= t.have {
		return
	}
	n = min(t.max, (n+ropeStep-1)/ropeStep*ropeStep)
	all := mem.Floats(t.buf.Bytes())
	for pos := t.have; pos < n; pos++ {
		row := all[pos*t.size : (pos+1)*t.size]
		for i, f := range t.rope.Freqs {
			sin, cos := math.Sincos(float64(pos) * f)
			row[i], row[t.size/2+i] = float32(cos*t.rope.Factor), float32(sin*t.rope.Factor)
		}
	}
	t.have = n
}

// At returns cosines and sines of a position that was reached, and the distance of those of the next, in
// bytes.
func (t *RopeTable) At(pos int) (cos, sin unsafe.Pointer, stride int) {
	cos = unsafe.Add(mem.Addr(t.buf.Bytes()), 4*pos*t.size)
	return cos, unsafe.Add(cos, 2*t.size), 4 * t.size
}

// Close frees the table.
func (t *RopeTable) Close() { t.buf.Free() }
