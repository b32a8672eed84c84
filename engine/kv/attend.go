package kv

import (
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
)

// maxCallMACs bounds one attention call to well under 200 us on a slow core.
const maxCallMACs = 2 << 20

// Partial is the running state of an online softmax over some positions: for each row a maximum, a
// sum, and a sum of values that has still to be divided by it.
type Partial struct {
	Max, Sum []float32 // [rows]
	Acc      []float32 // [rows][dim]
}

// PartialSize is the memory of NewPartial.
func PartialSize(rows, dim int) int { return 2*mem.Room(4*rows) + mem.Room(4*rows*dim) }

// NewPartial cuts a state for a number of rows off a block.
func NewPartial(b *mem.Block, rows, dim int) Partial {
	return Partial{Max: mem.Floats(b.Take(4 * rows)), Sum: mem.Floats(b.Take(4 * rows)), Acc: mem.Floats(b.Take(4 * rows * dim))}
}

// First is the state of the first rows rows.
func (p Partial) First(rows int) Partial {
	dim := len(p.Acc) / len(p.Max)
	return Partial{p.Max[:rows], p.Sum[:rows], p.Acc[:rows*dim]}
}

// Clear starts over.
func (p Partial) Clear() {
	for i := range p.Max {
		p.Max[i] = float32(math.Inf(-1))
	}
	clear(p.Sum)
	clear(p.Acc)
}

// Merge adds the positions that q saw to p.
func (p Partial) Merge(q Partial) {
	dim := len(p.Acc) / len(p.Max)
	for r, qm := range q.Max {
		if q.Sum[r] == 0 {
			continue
		}
		m := max(p.Max[r], qm)
		a, b := float32(math.Exp(float64(p.Max[r]-m))), float32(math.Exp(float64(qm-m)))
		p.Max[r], p.Sum[r] = m, p.Sum[r]*a+q.Sum[r]*b
		acc, add := p.Acc[r*dim:(r+1)*dim], q.Acc[r*dim:(r+1)*dim]
		for i := range acc {
			acc[i] = acc[i]*a + add[i]*b
		}
	}
}

// Attender calls an attention kernel; each worker has its own.
type Attender struct {
	args   *kernel.AttnArgs
	lo, hi []int32
	block  *mem.Block
	tmp    []byte
}

// NewAttender makes an attender for tiles of up to rows rows.
func NewAttender(rows, scratch int) (*Attender, error) {
	b, err := mem.New(4096+2*mem.Room(4*rows)+scratch, false)
	if err != nil {
		return nil, err
	}
	a := &Attender{block: b, args: mem.Of[kernel.AttnArgs](b), tmp: b.Take(scratch)}
	a.lo = unsafe.Slice((*int32)(mem.Addr(b.Take(4*rows))), rows)
	a.hi = unsafe.Slice((*int32)(mem.Addr(b.Take(4*rows))), rows)
	return a, nil
}

// Close frees the attender's memory.
func (a *Attender) Close() { a.block.Free() }

// Tile is a run of query rows of one KV head: Rows of consecutive positions from Pos on, Group rows
// (query heads) to each, of which the first Tokens are present.
type Tile struct {
	Layer, Head   int
	Pos, Tokens   int
	Rows, Group   int
	Window        int            // positions that each sees, 0 for all
	Q             unsafe.Pointer // f32 [Dim][Rows], scaled
	FirstB, LastB int            // blocks to look at, see Blocks
}

// Blocks returns the range of blocks, first to last-1, that a tile can see.
func (t *Tile) Blocks() (first, last int) {
	if t.Window > 0 {
		first = max(0, t.Pos-t.Window+1) / kernel.KVBlock
	}
	return first, (t.Pos+t.Tokens-1)/kernel.KVBlock + 1
}

// Run attends to blocks FirstB to LastB-1 of the cache, adding to p.
func (a *Attender) Run(c *Cache, k *exec.Kernel, t *Tile, p Partial) {
	step := max(1, maxCallMACs/(2*t.Rows*c.Dim*kernel.KVBlock))
	for b := t.FirstB; b < t.LastB; b += step {
		n := min(step, t.LastB-b)
		a.limits(t, b*kernel.KVBlock, n*kernel.KVBlock)
		*a.args = kernel.AttnArgs{
			Q: t.Q, K: c.K(t.Layer, t.Head, b*kernel.KVBlock), V: c.V(t.Layer, t.Head, b*kernel.KVBlock),
			Lo: unsafe.Pointer(&a.lo[0]), Hi: unsafe.Pointer(&a.hi[0]),
			Max: unsafe.Pointer(&p.Max[0]), Sum: unsafe.Pointer(&p.Sum[0]), Acc: unsafe.Pointer(&p.Acc[0]),
			Tmp: mem.Addr(a.tmp), Blocks: int64(n),
		}
		k.Main(unsafe.Pointer(a.args))
		k.Count(1, 0)
	}
}

// limits says what each row sees of n positions from base on: itself and what is before it, within
// the window. Rows without a token see nothing.
func (a *Attender) limits(t *Tile, base, n int) {
	for r := range t.Rows {
		pos := t.Pos + r/t.Group
		lo, hi := 0, pos+1
		if t.Window > 0 {
			lo = max(0, pos-t.Window+1)
		}
		if r/t.Group >= t.Tokens {
			hi = 0
		}
		hi = min(max(hi-base, 0), n)
		a.lo[r], a.hi[r] = int32(min(max(lo-base, 0), hi)), int32(hi)
	}
}
