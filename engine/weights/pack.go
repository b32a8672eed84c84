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

// Packer fills panels. Each worker has its own; its scratch holds one panel of source codes.
type Packer struct {
	args   *kernel.PackArgs
	block  *mem.Block
	size   int
	codes  []byte
	scales []uint16
	offs   []uint16
	floats []float32
}

// NewPacker makes a packer.
func NewPacker() (*Packer, error) {
	b, err := mem.New(4096, false)
	if err != nil {
		return nil, err
	}
	p := &Packer{block: b}
	p.args = mem.Of[kernel.PackArgs](b)
	return p, nil
}

// Close frees the scratch.
func (p *Packer) Close() { p.block.Free() }

// grow makes room for one panel of t. Scratch lies off the heap, where generated code may read it.
func (p *Packer) grow(t *Tensor) error {
	nr, k := t.Layout.NR(), t.K
	if t.Format.IsFloat() {
		if cap(p.floats) < nr*k {
			p.floats = make([]float32, nr*k)
		}
		p.floats = p.floats[:nr*k]
		return nil
	}
	if g := nr * k / t.Format.Group; cap(p.scales) < g {
		p.scales, p.offs = make([]uint16, g), make([]uint16, g)
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
	if err := p.grow(t); err != nil {
		return err
	}
	for panel := lo; panel < hi; panel++ {
		var err error
		if t.Format.IsFloat() {
			err = p.packFloats(t, panel, src)
		} else {
			err = p.packCodes(t, panel, src, pack)
		}
		if err != nil {
			return fmt.Errorf("pack %s, panel %d: %w", t.Role, panel, err)
		}
	}
	return nil
}

func (p *Packer) packCodes(t *Tensor, panel int, src Source, pack kernel.Func) error {
	nr, k, groups := t.Layout.NR(), t.K, t.K/t.Format.Group
	rows := min(nr, t.N-panel*nr)
	codes := p.codes[:nr*k]
	scales, offs := p.scales[:rows*groups], p.offs[:rows*groups]
	if !t.Format.Offset {
		offs = nil
	}
	part, first := t.part(panel * nr)
	for r := range rows {
		n := panel*nr + r - first
		for n >= t.Parts[part].Rows {
			first += t.Parts[part].Rows
			n -= t.Parts[part].Rows
			part++
		}
		row := model.Row{Codes: codes[r*k : (r+1)*k], Scales: scales[r*groups : (r+1)*groups]}
		if offs != nil {
			row.Offsets = offs[r*groups : (r+1)*groups]
		}
		if err := src.Row(part, n, row); err != nil {
			return err
		}
	}
	for i := rows * k; i < nr*k; i++ {
		codes[i] = byte(t.Format.Bias)
	}
	dst, dstScales := t.panel(panel)
	*p.args = kernel.PackArgs{Src: mem.Addr(codes), Dst: mem.Addr(dst), K: int64(k), SrcStride: int64(k)}
	pack(ptr(p.args))
	return ref.PackScales(dstScales, t.Layout, t.Format, k, scales, offs)
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
	g := t.K / t.Format.Group
	copy(dst.Codes, r.m.Codes[n*t.K:(n+1)*t.K])
	copy(dst.Scales, r.m.Scales[n*g:(n+1)*g])
	if t.Format.Offset {
		copy(dst.Offsets, r.m.Offsets[n*g:(n+1)*g])
	}
	return nil
}
