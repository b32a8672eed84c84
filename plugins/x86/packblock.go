package x86

import (
	"math/bits"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// blockPacker packs rows of blocks, eight channels at a time. Sixteen bytes of each of the eight rows
// are transposed to dwords of eight channels; from there codes and sub-scales are shifts, masks and
// ORs of whole vectors. The code is that of AVX2 on both ISAs: eight rows are what general registers
// address, and memory bounds the rest.
type blockPacker struct {
	*Emitter
	p     kernel.Problem
	c     blockCode
	slots [2]int // the offset that y0 to y3 and y4 to y7 were loaded from: dword i is in y(4*slot+i)
}

// Registers. Rows are addressed from their ends, by an index that grows to 0; pbAhead is the index
// eight rows on, if rows follow each other.
const (
	pbIndex, pbTo, pbScales, pbAhead, pbChannel = amd64.RCX, amd64.RBX, amd64.R14, amd64.R15, amd64.RAX

	pbCodes, pbTemps = 8, 12 // y8 to y11: codes; y12 to y15: temporaries
)

var pbRows = [8]amd64.Reg{amd64.RSI, amd64.RDX, amd64.R8, amd64.R9, amd64.R10, amd64.R11, amd64.R12, amd64.R13}

func emitPackBlocks(p kernel.Problem) (Code, error) {
	b := &blockPacker{Emitter: NewEmitter(AVX2), p: p, c: blockCodes[p.Source]}
	b.MovI(pbChannel, 0)
	top := b.Here()
	b.begin()
	b.Align(32)
	block := b.Here()
	if p.Source.Format().IsFloat() {
		b.floats()
	} else {
		b.block()
	}
	l, t := p.Layout, p.Source
	b.AddI(pbTo, l.PanelBytes(p.Format, t.Weights()))
	b.AddI(pbScales, l.ScaleBytes(p.Format, t.Weights()))
	b.AddI(pbAhead, t.Bytes())
	b.AddI(pbIndex, t.Bytes())
	b.Jcc(amd64.CcNE, block)
	b.AddI(pbChannel, 8)
	b.CmpI(pbChannel, l.NR())
	b.Jcc(amd64.CcB, top)
	b.Ret()
	code, err := b.Code()
	return Code{Bytes: code, Entries: map[string]int{kernel.EntryMain: 0}}, err
}

// begin sets up the registers of the eight channels from pbChannel on.
func (b *blockPacker) begin() {
	var args kernel.PackArgs
	b.arg(pbIndex, unsafe.Offsetof(args.K))
	b.Shr(pbIndex, bits.TrailingZeros(uint(b.p.Source.Weights())))
	b.ImulI(pbIndex, pbIndex, b.p.Source.Bytes())
	b.arg(pbTo, unsafe.Offsetof(args.Rows))
	b.Lea(pbTo, amd64.MX(pbTo, pbChannel, 8, 0))
	for i, r := range pbRows {
		b.Load(r, amd64.M(pbTo, 8*i))
		b.AddM(r, amd64.M(amd64.RDI, int(unsafe.Offsetof(args.Src))))
		b.Add(r, pbIndex)
	}
	b.ImulI(pbAhead, pbIndex, 8-1)
	b.Neg(pbIndex)
	b.arg(pbScales, unsafe.Offsetof(args.Scales))
	b.arg(pbTo, unsafe.Offsetof(args.Dst))
}

// codesAt, scalesAt and subsAt are where the channels' dwords, 16-bit and 8-bit scales go.
func codesAt(off int) amd64.Mem  { return amd64.MX(pbTo, pbChannel, 4, off) }
func scalesAt(off int) amd64.Mem { return amd64.MX(pbScales, pbChannel, 2, off) }
func subsAt(off int) amd64.Mem   { return amd64.MX(pbScales, pbChannel, 1, off) }

// block emits one block of each row.
func (b *blockPacker) block() {
	b.slots = [2]int{-1, -1}
	b.prefetch()
	b.scales()
	if len(b.c.subs) > 0 {
		b.subScales()
	}
	b.slots = [2]int{-1, -1}
	if b.c.iq4 {
		b.Op(amd64.VBROADCASTI128, amd64.Y(4), b.Const(kernel.IQ4Values[:]))
	}
	if b.c.fifth != 0 {
		b.transpose(1, b.c.fifth, 0b0001)
	}
	for _, s := range b.c.steps {
		b.step(s)
	}
}

// prefetch asks for this block of the rows eight channels on, which mostly are the next eight rows of
// the file: a row is too short for the hardware to find its stream and run ahead.
func (b *blockPacker) prefetch() {
	for at := 0; at < b.p.Source.Bytes(); at += 64 {
		for _, r := range pbRows {
			b.Prefetch(2, amd64.MX(r, pbAhead, 1, at))
		}
	}
}

// step makes the codes of 16 weights and stores them.
func (b *blockPacker) step(s step) {
	src := make([]int, len(s.terms))
	for i, t := range s.terms {
		src[i] = b.load(t.at, i)
	}
	for i := range 4 {
		d := amd64.Y(pbCodes + i)
		for j, t := range s.terms {
			b.term(d, amd64.Y(4*src[j]+i), t, j > 0)
		}
		if b.c.fifth != 0 {
			b.fifthBits(d, s.k+4*i)
		}
		if b.c.iq4 {
			b.Op(amd64.VPSHUFB, d, amd64.Y(4), d)
		}
		if b.c.add != 0 {
			b.Op(amd64.VPADDB, d, d, b.all(b.c.add))
		}
	}
	run := 64 * b.p.Layout.Cols
	b.storeOctet(b.p.Format.Bits, codesAt(s.k/16*b.p.Format.Bits/2*run), run, pbCodes, pbTemps)
}

// load returns the slot of the 16 bytes at an offset, filled if it has others. Terms of the same
// number share a slot, since they follow each other.
func (b *blockPacker) load(at, n int) int {
	if b.slots[n] != at {
		b.transpose(n, at, 0b1111)
		b.slots[n] = at
	}
	return n
}

// transpose loads the 16 bytes at an offset of every row's block; dwords says which are wanted.
func (b *blockPacker) transpose(slot, at int, dwords uint) {
	c, t, y := pbCodes, pbTemps, amd64.Y
	for i := range 4 {
		b.Op(amd64.VMOVUPS, amd64.X(c+i), amd64.MX(pbRows[i], pbIndex, 1, at))
		b.Op(amd64.VINSERTI128, y(c+i), y(c+i), amd64.MX(pbRows[i+4], pbIndex, 1, at), 1)
	}
	for half, unpack := range []amd64.Inst{amd64.VPUNPCKLDQ, amd64.VPUNPCKHDQ} {
		want := dwords >> (2 * half) & 3
		if want == 0 {
			continue
		}
		b.Op(unpack, y(t), y(c), y(c+1))
		b.Op(unpack, y(t+1), y(c+2), y(c+3))
		if want&1 != 0 {
			b.Op(amd64.VPUNPCKLQDQ, y(4*slot+2*half), y(t), y(t+1))
		}
		if want&2 != 0 {
			b.Op(amd64.VPUNPCKHQDQ, y(4*slot+2*half+1), y(t), y(t+1))
		}
	}
}

// term computes d = t of src, or d |= t of src.
func (b *blockPacker) term(d, src amd64.Vec, t term, or bool) {
	x := d
	if or {
		x = amd64.Y(pbTemps)
	}
	if t.spread != 0 {
		b.Op(amd64.VPSHUFB, x, src, b.within(t.spread))
		src = x
	}
	switch {
	case t.shift > 0:
		b.Op(amd64.VPSRLD, x, src, t.shift)
		src = x
	case t.shift < 0:
		b.Op(amd64.VPSLLD, x, src, -t.shift)
		src = x
	}
	b.Op(amd64.VPAND, x, src, b.dwords(t.mask))
	if or {
		b.Op(amd64.VPOR, d, d, x)
	}
}

// fifthBits adds bits k to k+3 of the mask in y4 to the codes of d.
func (b *blockPacker) fifthBits(d amd64.Vec, k int) {
	x, bit := amd64.Y(pbTemps), uint32(0x08040201)<<(k%8)
	b.Op(amd64.VPSHUFB, x, amd64.Y(4), b.within(uint32(k/8)*ones))
	b.Op(amd64.VPAND, x, x, b.dwords(bit))
	b.Op(amd64.VPCMPEQB, x, x, b.dwords(bit))
	b.Op(amd64.VPAND, x, x, b.all(0x10))
	b.Op(amd64.VPOR, d, d, x)
}

// scales stores the 16-bit scale of each channel, and the offset.
func (b *blockPacker) scales() {
	h, v, low := b.c.scales, amd64.Y(0), amd64.X(0)
	dwords := uint(0b0001)
	if h.last {
		dwords, v, low = 0b1000, amd64.Y(3), amd64.X(3)
	}
	b.transpose(0, h.at, dwords)
	b.Op(amd64.VPSHUFB, v, v, b.lanes(0x05040100, 0x0d0c0908, 0x07060302, 0x0f0e0b0a))
	b.Op(amd64.VPERMQ, v, v, 0xd8)
	if h.upper {
		b.Op(amd64.VEXTRACTI128, scalesAt(0), v, 1)
		return
	}
	b.Op(amd64.VMOVUPSS, scalesAt(0), low)
	if !b.p.Format.Offset {
		return
	}
	if h.negate {
		b.Op(amd64.VPXOR, v, v, b.dwords(0x80008000))
	}
	b.Op(amd64.VEXTRACTI128, scalesAt(2*b.p.Layout.NR()), v, 1)
}

// subScales stores the 8-bit scales and offsets, four groups of eight channels at a time.
func (b *blockPacker) subScales() {
	b.transpose(0, b.c.subsAt, 0b1111)
	y, x, hi := amd64.Y(pbCodes), amd64.X(pbCodes), amd64.X(pbTemps)
	for _, s := range b.c.subs {
		for j, t := range s.terms {
			b.term(y, amd64.Y(t.at), t, j > 0)
		}
		if s.add != 0 {
			b.Op(amd64.VPADDB, y, y, b.all(s.add))
		}
		b.Op(amd64.VPSHUFB, y, y, b.lanes(0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703))
		b.Op(amd64.VMOVUPS, amd64.Y(pbTemps), b.words(0, 4, 1, 5, 2, 6, 3, 7))
		b.Op(amd64.VPERMD, y, amd64.Y(pbTemps), y)
		for i := range 4 {
			if i == 2 {
				b.Op(amd64.VEXTRACTI128, x, y, 1)
			}
			src := x
			if i%2 == 1 {
				b.Op(amd64.VPSRLDQ, hi, x, 8)
				src = hi
			}
			b.Op(amd64.VMOVQXS, b.sub(s.g+i, s.offset), src)
		}
	}
}

// sub is where the sub-scales or sub-offsets of a group go.
func (b *blockPacker) sub(g int, offset bool) amd64.Mem {
	at := b.p.Layout.SubAt(b.p.Format, 0, g)
	if offset {
		at += b.p.Layout.NR()
	}
	return subsAt(at)
}

// dwords is a constant in every dword, all in every byte, lanes in both lanes of 128 bits, within the
// control of a shuffle of bytes within dwords.
func (e *Emitter) dwords(v uint32) amd64.Mem         { return e.words(v, v, v, v, v, v, v, v) }
func (e *Emitter) all(v uint8) amd64.Mem             { return e.dwords(uint32(v) * ones) }
func (e *Emitter) lanes(a, b, c, d uint32) amd64.Mem { return e.words(a, b, c, d, a, b, c, d) }
func (e *Emitter) within(v uint32) amd64.Mem {
	return e.lanes(v, v+0x04040404, v+0x08080808, v+0x0c0c0c0c)
}
