package weights

import (
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// group is how many panels of t are made at a time.
func (p *Packer) group(t *Tensor) int {
	if t.Format.IsFloat() {
		return 1
	}
	return max(1, p.rows/t.Layout.NR())
}

// packMade makes the rows of panels lo to hi-1 in scratch, then packs them panel by panel.
func (p *Packer) packMade(t *Tensor, lo, hi int, src Source, pack kernel.Func) error {
	if t.Format.IsFloat() {
		return p.packFloats(t, lo, src)
	}
	nr, k := t.Layout.NR(), t.K
	size := (hi - lo) * nr * k
	if err := p.grow(nr, size); err != nil {
		return err
	}
	if p.format != t.Format || p.room < size {
		p.format, p.room, p.scales = t.Format, size, t.Format.NewScaleSet(size)
	}
	rows := min(t.N, hi*nr) - lo*nr
	for r := range rows {
		part, first := t.part(lo*nr + r)
		row := model.Row{Codes: p.codes[r*k : (r+1)*k], ScaleSet: p.scales.Slice(t.Format, r*k, (r+1)*k)}
		if err := src.Row(part, lo*nr+r-first, row); err != nil {
			return err
		}
	}
	for i := rows * k; i < size; i++ {
		p.codes[i] = byte(t.Format.Bias)
	}
	for panel := lo; panel < hi; panel++ {
		if err := p.packCodes(t, panel, (panel-lo)*nr, min(nr, t.N-panel*nr), pack); err != nil {
			return err
		}
	}
	return nil
}

// packCodes packs a panel from rows rows of scratch, beginning with row at.
func (p *Packer) packCodes(t *Tensor, panel, at, rows int, pack kernel.Func) error {
	k := t.K
	dst, dstScales := t.panel(panel)
	*p.args = kernel.PackArgs{Src: mem.Addr(p.codes[at*k:]), Dst: mem.Addr(dst), K: int64(k), SrcStride: int64(k)}
	pack(ptr(p.args))
	return ref.PackScales(dstScales, t.Layout, t.Format, k, rows, p.scales.Slice(t.Format, at*k, (at+rows)*k))
}

func (p *Packer) packFloats(t *Tensor, panel int, src Source) error {
	nr, k := t.Layout.NR(), t.K
	rows := min(nr, t.N-panel*nr)
	if cap(p.floats) < rows*k {
		p.floats = make([]float32, rows*k)
	}
	p.floats = p.floats[:rows*k]
	for r := range rows {
		part, first := t.part(panel*nr + r)
		if err := src.Row(part, panel*nr+r-first, model.Row{Floats: p.floats[r*k : (r+1)*k]}); err != nil {
			return err
		}
	}
	dst, scales := t.panel(panel)
	m := &ref.Matrix{N: rows, K: k, Format: t.Format, Floats: p.floats}
	return ref.PackPanel(dst, scales, t.Layout, m, 0)
}
