package weights

import (
	"fmt"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Source gives the rows of a tensor's parts.
type Source interface {
	// Row writes row n of part i.
	Row(part, n int, dst model.Row) error
}

// Packer fills panels. Each worker has its own; its scratch holds the codes of the source rows that
// it unpacks at a time, in whole panels.
type Packer struct {
	rows   int // to unpack at a time
	args   *kernel.PackArgs
	block  *mem.Block
	size   int
	codes  []byte
	scales kernel.ScaleSet // of format
	format kernel.Format
	room   int // weights that scales are for
	floats []float32
}

// NewPacker makes a packer that unpacks about rows source rows at a time, at least one panel.
func NewPacker(rows int) (*Packer, error) {
	b, err := mem.New(4096, false)
	if err != nil {
		return nil, err
	}
	p := &Packer{block: b, rows: rows}
	p.args = mem.Of[kernel.PackArgs](b)
	return p, nil
}

// Close frees the scratch.
func (p *Packer) Close() { p.block.Free() }

// group is how many panels of t are unpacked at a time.
func (p *Packer) group(t *Tensor) int { return max(1, p.rows/t.Layout.NR()) }

// grow makes room for a group of panels of t. Scratch lies off the heap, where generated code may
// read it.
func (p *Packer) grow(t *Tensor, panels int) error {
	nr, k := t.Layout.NR()*panels, t.K
	if t.Format.IsFloat() {
		if cap(p.floats) < nr*k {
			p.floats = make([]float32, nr*k)
		}
		p.floats = p.floats[:nr*k]
		return nil
	}
	if p.format != t.Format || p.room < nr*k {
		p.format, p.room, p.scales = t.Format, nr*k, t.Format.NewScaleSet(nr*k)
	}
	if p.size >= nr*k {
		return nil
	}
	b, err := mem.New(4096+nr*k, false)
	if err != nil {
		return err
	}
	p.block.Free()
	p.block, p.size = b, nr*k
	p.args = mem.Of[kernel.PackArgs](b)
	p.codes = b.Take(nr * k)
	return nil
}

// Pack fills panels lo to hi-1 of t from src; pack is the kernel of OpPack for t's format and layout
// and may be nil for floats.
func (p *Packer) Pack(t *Tensor, lo, hi int, src Source, pack kernel.Func) error {
	step := min(p.group(t), max(1, hi-lo))
	if t.Format.IsFloat() {
		step = 1
	}
	if err := p.grow(t, step); err != nil {
		return err
	}
	for panel := lo; panel < hi; panel += step {
		var err error
		if t.Format.IsFloat() {
			err = p.packFloats(t, panel, src)
		} else {
			err = p.packGroup(t, panel, min(hi, panel+step), src, pack)
		}
		if err != nil {
			return fmt.Errorf("pack %s, panel %d: %w", t.Role, panel, err)
		}
	}
	return nil
}

// packGroup unpacks the rows of panels lo to hi-1, then packs them panel by panel.
func (p *Packer) packGroup(t *Tensor, lo, hi int, src Source, pack kernel.Func) error {
	nr, k := t.Layout.NR(), t.K
	rows := min(t.N, hi*nr) - lo*nr
	part, first := t.part(lo * nr)
	for r := range rows {
		n := lo*nr + r - first
		for n >= t.Parts[part].Rows {
			first += t.Parts[part].Rows
			n -= t.Parts[part].Rows
			part++
		}
		row := model.Row{Codes: p.codes[r*k : (r+1)*k], ScaleSet: p.scales.Slice(t.Format, r*k, (r+1)*k)}
		if err := src.Row(part, n, row); err != nil {
			return err
		}
	}
	for i := rows * k; i < (hi-lo)*nr*k; i++ {
		p.codes[i] = byte(t.Format.Bias)
	}
	for panel := lo; panel < hi; panel++ {
		if err := p.packPanel(t, panel, (panel-lo)*nr, min(nr, t.N-panel*nr), pack); err != nil {
			return err
		}
	}
	return nil
}

// packPanel packs a panel from rows rows of scratch, beginning with row at.
func (p *Packer) packPanel(t *Tensor, panel, at, rows int, pack kernel.Func) error {
	k := t.K
	dst, dstScales := t.panel(panel)
	*p.args = kernel.PackArgs{Src: mem.Addr(p.codes[at*k:]), Dst: mem.Addr(dst), K: int64(k), SrcStride: int64(k)}
	pack(ptr(p.args))
	return ref.PackScales(dstScales, t.Layout, t.Format, k, rows, p.scales.Slice(t.Format, at*k, (at+rows)*k))
}

func (p *Packer) packFloats(t *Tensor, panel int, src Source) error {
	nr, k := t.Layout.NR(), t.K
	rows := min(nr, t.N-panel*nr)
	for r := range rows {
		part, first := t.part(panel*nr + r)
		if err := src.Row(part, panel*nr+r-first, model.Row{Floats: p.floats[r*k : (r+1)*k]}); err != nil {
			return err
		}
	}
	dst, scales := t.panel(panel)
	m := &ref.Matrix{N: rows, K: k, Format: t.Format, Floats: p.floats[:rows*k]}
	return ref.PackPanel(dst, scales, t.Layout, m, 0)
}

// part finds the part that channel n belongs to, and the part's first channel.
func (t *Tensor) part(n int) (part, first int) {
	for n-first >= t.Parts[part].Rows {
		first += t.Parts[part].Rows
		part++
	}
	return part, first
}

// Repacked reads the rows of a packed tensor, so that it can be packed in another layout. It is for
// one goroutine.
type Repacked struct {
	T *Tensor

	m     *ref.Matrix
	panel int // that m holds
}

// Row unpacks the panel of the row, unless it is the last one asked for.
func (r *Repacked) Row(part, n int, dst model.Row) error {
	t := r.T
	for _, p := range t.Parts[:part] {
		n += p.Rows
	}
	if r.m == nil {
		m, err := ref.NewMatrix(t.Format, t.Layout.NR(), t.K)
		if err != nil {
			return err
		}
		r.m, r.panel = m, -1
	}
	if p := n / t.Layout.NR(); p != r.panel {
		codes, scales := t.panel(p)
		if err := ref.UnpackPanel(r.m, t.Layout, 0, codes, scales); err != nil {
			return err
		}
		r.panel = p
	}
	n %= t.Layout.NR()
	if t.Format.IsFloat() {
		copy(dst.Floats, r.m.Floats[n*t.K:(n+1)*t.K])
		return nil
	}
	copy(dst.Codes, r.m.Codes[n*t.K:(n+1)*t.K])
	dst.ScaleSet.Copy(r.m.Slice(t.Format, n*t.K, (n+1)*t.K))
	return nil
}
