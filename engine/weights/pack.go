package weights

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Source gives the rows of a tensor's parts.
type Source interface {
	// Row writes row n of part i.
	Row(part, n int, dst model.Row) error
	// Blocks is row n of part i as stored, of a type that packs the tensor's format; BlockNone if the
	// row has to be made. Row checks scales and weights; this does not.
	Blocks(part, n int) (kernel.Block, []byte)
}

// Kernels are the kernels of OpPack for a tensor's format and layout, by what they read. Rows of
// blocks without a kernel are made as codes, by Row.
type Kernels map[kernel.Block]kernel.Func

// Packer fills panels. Each worker has its own. Blocks are packed from where they lie; other rows are
// made in scratch first, some panels at a time.
type Packer struct {
	rows   int // to make at a time
	block  *mem.Block
	args   *kernel.PackArgs
	at     []int64 // PackArgs.Rows
	codes  []byte
	scales kernel.ScaleSet // of format
	format kernel.Format
	room   int // weights that scales are for
	floats []float32
}

// NewPacker makes a packer that makes about rows rows at a time, at least one panel.
func NewPacker(rows int) *Packer { return &Packer{rows: rows} }

// Close frees the scratch.
func (p *Packer) Close() { p.block.Free() }

// grow makes room for the rows of a panel and so many codes. It lies off the heap, where generated
// code may read it.
func (p *Packer) grow(nr, codes int) error {
	if p.block != nil && len(p.at) >= nr && len(p.codes) >= codes {
		return nil
	}
	nr, codes = max(nr, len(p.at)), max(codes, len(p.codes))
	b, err := mem.New(mem.Room(int(unsafe.Sizeof(*p.args)))+mem.Room(8*nr)+codes+64, false)
	if err != nil {
		return err
	}
	p.block.Free()
	p.block, p.args = b, mem.Of[kernel.PackArgs](b)
	p.at = unsafe.Slice((*int64)(mem.Addr(b.Take(8*nr))), nr)
	p.codes = b.Take(codes)
	return nil
}

// Pack fills panels lo to hi-1 of t from src.
func (p *Packer) Pack(t *Tensor, lo, hi int, src Source, k Kernels) error {
	for panel := lo; panel < hi; {
		n := 1
		done, err := p.packBlocks(t, panel, src, k)
		if err == nil && !done {
			n = min(p.group(t), hi-panel)
			err = p.packMade(t, panel, panel+n, src, k[kernel.BlockNone])
		}
		if err != nil {
			return fmt.Errorf("pack %s, panel %d: %w", t.Role, panel, err)
		}
		panel += n
	}
	return nil
}

// packBlocks packs a panel from the blocks of its rows, if they are all of one type with a kernel.
func (p *Packer) packBlocks(t *Tensor, panel int, src Source, k Kernels) (done bool, err error) {
	nr := t.Layout.NR()
	rows := min(nr, t.N-panel*nr)
	if err := p.grow(nr, 0); err != nil {
		return false, err
	}
	var block kernel.Block
	var first unsafe.Pointer
	for r := range rows {
		part, start := t.part(panel*nr + r)
		b, row := src.Blocks(part, panel*nr+r-start)
		if r == 0 {
			block, first = b, mem.Addr(row)
		}
		if b != block || b == kernel.BlockNone || k[b] == nil {
			return false, nil
		}
		p.at[r] = int64(uintptr(mem.Addr(row)) - uintptr(first))
	}
	for r := rows; r < nr; r++ {
		p.at[r] = 0
	}
	p.call(t, panel, block, first, k[block])
	codes, scales := t.panel(panel)
	if !t.finite(scales) { // before padding: a kernel may flag a bad weight in the scale of a neighbour
		return false, p.complain(t, panel, rows, src)
	}
	if rows < nr {
		if err := ref.PadPanel(codes, scales, t.Layout, t.Format, t.K, rows); err != nil {
			return false, err
		}
	}
	return true, nil
}

// call runs a kernel over a panel, in calls of bounded length.
func (p *Packer) call(t *Tensor, panel int, block kernel.Block, src unsafe.Pointer, pack kernel.Func) {
	codes, scales := t.Panel(panel)
	l, f, unit := t.Layout, t.Format, max(block.Weights(), t.Format.ScaleGroup())
	step := max(1, kernel.MaxCallBytes/(l.PanelBytes(f, unit)+l.ScaleBytes(f, unit))) * unit
	for k := 0; k < t.K; k += step {
		*p.args = kernel.PackArgs{Src: unsafe.Add(src, k/block.Weights()*block.Bytes()), K: int64(min(step, t.K-k)),
			Dst: unsafe.Add(codes, l.PanelBytes(f, k)), Scales: unsafe.Add(scales, l.ScaleBytes(f, k)), Rows: ptr(&p.at[0])}
		pack(ptr(p.args))
	}
}

// finite reports whether no 16-bit scale or offset of a panel is infinite or NaN.
func (t *Tensor) finite(scales []byte) bool {
	const words = 0x0001000100010001
	const carry = 0x8000 * words
	f, l := t.Format, t.Layout
	one := uint64(0x0400) * words // the least exponent
	if f.Scale == kernel.ScaleBF16 {
		one = 0x0080 * words
	}
	size, head := l.ScaleBytes(f, f.ScaleGroup()), 2*l.NR()
	if f.Offset {
		head *= 2
	}
	if f.Super == kernel.SuperNone {
		size, head = len(scales), len(scales)
	}
	var bad uint64
	for ; len(scales) > 0; scales = scales[size:] {
		for h := scales[:head]; len(h) >= 8; h = h[8:] {
			bad |= binary.LittleEndian.Uint64(h)&(carry-one) + one // an exponent of ones carries
		}
	}
	return bad&carry == 0
}

// complain finds the row that has a scale which is not finite.
func (p *Packer) complain(t *Tensor, panel, rows int, src Source) error {
	row := model.Row{Codes: make([]byte, t.K), ScaleSet: t.Format.NewScaleSet(t.K)}
	for n := panel * t.Layout.NR(); rows > 0; n, rows = n+1, rows-1 {
		part, first := t.part(n)
		if err := src.Row(part, n-first, row); err != nil {
			return err
		}
	}
	return fmt.Errorf("a scale is not finite")
}

// part finds the part that channel n belongs to, and the part's first channel.
func (t *Tensor) part(n int) (part, first int) {
	for n-first >= t.Parts[part].Rows {
		first += t.Parts[part].Rows
		part++
	}
	return part, first
}
