package x86

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// Floats are quantised as ref.QuantizeRow says, bit for bit, one group of 32 of one row at a time, its
// codes in a register; those of eight rows are then transposed and stored. y0 to y7 work, y8 to y15
// hold the codes.
const (
	pfScale, pfOffset, pfFlat, pfBad = 4, 5, 6, 7 // pfFlat: ones where the scale is 0; pfBad: NaN where weights were
	pfCodes                          = 8
)

// floats emits a group of 32 of each of the eight rows.
func (b *blockPacker) floats() {
	b.prefetch()
	y := amd64.Y
	b.Op(amd64.VPXOR, y(pfBad), y(pfBad), y(pfBad))
	for i, row := range pbRows {
		b.extent(row)
		b.foldExtent()
		b.groupScale(i)
		b.quantise(row, y(pfCodes+i))
	}
	b.flagBad()
	b.transposeCodes()
}

// eight loads floats 8i to 8i+7 of a row's group.
func (b *blockPacker) eight(d amd64.Vec, row amd64.Reg, i int) {
	at := func(size int) amd64.Mem { return amd64.MX(row, pbIndex, 1, size*8*i) }
	switch b.p.Source {
	case kernel.BlockF16:
		b.Op(amd64.VCVTPH2PS, d, at(2))
	case kernel.BlockBF16:
		b.Op(amd64.VPMOVZXWD, d, at(2))
		b.Op(amd64.VPSLLD, d, d, 16)
	default:
		b.Op(amd64.VMOVUPS, d, at(4))
	}
}

// extent leaves the least and the largest of a group's weights in eight lanes of y4 and y5. x - x is
// NaN for NaN and infinities: minimum and maximum would lose them.
func (b *blockPacker) extent(row amd64.Reg) {
	y := amd64.Y
	ops := []amd64.Inst{amd64.VMINPS, amd64.VMAXPS}
	for i := 0; i < 4; i += 2 {
		b.eight(y(0), row, i)
		b.eight(y(1), row, i+1)
		for j, op := range ops {
			if i == 0 {
				b.Op(op, y(4+j), y(0), y(1))
				continue
			}
			b.Op(op, y(4+j), y(4+j), y(0))
			b.Op(op, y(4+j), y(4+j), y(1))
		}
		for j := range 2 {
			b.Op(amd64.VSUBPS, y(j), y(j), y(j))
			b.Op(amd64.VPOR, y(pfBad), y(pfBad), y(j))
		}
	}
}

// foldExtent brings them to lane 0, +0 for either zero.
func (b *blockPacker) foldExtent() {
	x, t := amd64.X, amd64.X(6)
	for i, op := range []amd64.Inst{amd64.VMINPS, amd64.VMAXPS} {
		v := x(4 + i)
		b.Op(amd64.VEXTRACTF128, t, amd64.Y(4+i), 1)
		b.Op(op, v, v, t)
		for _, swap := range []int{0x4e, 0xb1} {
			b.Op(amd64.VPERMILPS, t, v, swap)
			b.Op(op, v, v, t)
		}
		b.Op(amd64.VADDPS, v, v, b.words(0, 0, 0, 0))
	}
}

// groupScale makes scale and offset from the extent in x4 and x5, stores them for row i, and leaves
// what was stored in y4 and y5.
func (b *blockPacker) groupScale(i int) {
	x, f, four := amd64.X, b.p.Format, func(v float32) amd64.Mem {
		w := math.Float32bits(v)
		return b.words(w, w, w, w)
	}
	if f.Offset {
		b.Op(amd64.VSUBPS, x(6), x(5), x(4))
		b.Op(amd64.VDIVPS, x(6), x(6), four(float32(int(1)<<f.Bits-1)))
		b.storeScale(x(4), scalesAt(2*b.p.Layout.NR()+2*i), amd64.Y(pfOffset))
	} else {
		b.Op(amd64.VPXOR, x(6), x(6), x(6))
		b.Op(amd64.VSUBPS, x(6), x(6), x(4))
		b.Op(amd64.VMAXPS, x(6), x(5), x(6))
		b.Op(amd64.VDIVPS, x(6), x(6), four(float32(f.Bias-1)))
	}
	b.storeScale(x(6), scalesAt(2*i), amd64.Y(pfScale))
	b.Op(amd64.VPXOR, amd64.Y(pfFlat), amd64.Y(pfFlat), amd64.Y(pfFlat))
	b.Op(amd64.VPCMPEQD, amd64.Y(pfFlat), amd64.Y(pfFlat), amd64.Y(pfScale))
}

// storeScale rounds lane 0 of v to f16, stores it, and spreads what was stored over d.
func (b *blockPacker) storeScale(v amd64.Vec, m amd64.Mem, d amd64.Vec) {
	b.Op(amd64.VCVTPS2PH, v, v, 0)
	b.Op(amd64.VPEXTRW, m, v, 0)
	b.Op(amd64.VCVTPH2PS, v, v)
	b.Op(amd64.VBROADCASTSS, d, v)
}

// quantise makes the codes of a row's group: dword i holds weights 8i to 8i+3, dword 4+i the next four.
func (b *blockPacker) quantise(row amd64.Reg, codes amd64.Vec) {
	f, y := b.p.Format, amd64.Y
	lo, hi := float32(0), float32(int(1)<<f.Bits-1)
	if !f.Offset {
		lo, hi = -float32(f.Bias-1), float32(f.Bias-1)
	}
	for i := range 4 {
		b.eight(y(i), row, i)
		if f.Offset {
			b.Op(amd64.VSUBPS, y(i), y(i), y(pfOffset))
		}
		b.Op(amd64.VDIVPS, y(i), y(i), y(pfScale))
		b.Op(amd64.VPANDN, y(i), y(pfFlat), y(i))
		b.Op(amd64.VMAXPS, y(i), y(i), b.dwords(math.Float32bits(lo)))
		b.Op(amd64.VMINPS, y(i), y(i), b.dwords(math.Float32bits(hi)))
		b.Op(amd64.VCVTPS2DQ, y(i), y(i))
	}
	b.Op(amd64.VPACKSSDW, y(0), y(0), y(1))
	b.Op(amd64.VPACKSSDW, y(2), y(2), y(3))
	if f.Offset {
		b.Op(amd64.VPACKUSWB, codes, y(0), y(2))
		return
	}
	b.Op(amd64.VPACKSSWB, codes, y(0), y(2))
	b.Op(amd64.VPADDB, codes, codes, b.all(uint8(f.Bias)))
}

// flagBad makes the last row's scale NaN if any weight was.
func (b *blockPacker) flagBad() {
	bad, t, last := amd64.X(pfBad), amd64.X(0), scalesAt(2*7)
	b.Op(amd64.VEXTRACTI128, t, amd64.Y(pfBad), 1)
	b.Op(amd64.VPOR, bad, bad, t)
	for _, swap := range []int{0x4e, 0xb1} {
		b.Op(amd64.VPERMILPS, t, bad, swap)
		b.Op(amd64.VPOR, bad, bad, t)
	}
	b.Op(amd64.VPSRLD, bad, bad, 16)
	b.Op(amd64.VPXOR, t, t, t)
	b.Op(amd64.VPINSRW, t, t, last, 0)
	b.Op(amd64.VPOR, t, t, bad)
	b.Op(amd64.VPEXTRW, last, t, 0)
}

// transposeCodes stores the codes in y8 to y15.
func (b *blockPacker) transposeCodes() {
	y, f := amd64.Y, b.p.Format
	for i := 0; i < 8; i += 2 {
		b.Op(amd64.VPUNPCKLDQ, y(i), y(8+i), y(9+i))
		b.Op(amd64.VPUNPCKHDQ, y(i+1), y(8+i), y(9+i))
	}
	for i := range 2 { // dwords 0 to 3 of rows 0 to 3 in y8 to y11, of rows 4 to 7 in y12 to y15
		for j := range 2 {
			b.Op(amd64.VPUNPCKLQDQ, y(8+4*i+2*j), y(4*i+j), y(4*i+2+j))
			b.Op(amd64.VPUNPCKHQDQ, y(8+4*i+2*j+1), y(4*i+j), y(4*i+2+j))
		}
	}
	run := 64 * b.p.Layout.Cols
	for i := range 2 {
		for j := range 2 {
			lo, hi := y(8+2*i+j), y(12+2*i+j)
			b.Op(amd64.VPERM2I128, y(2*j), lo, hi, 0x20)
			b.Op(amd64.VPERM2I128, y(2*j+1), lo, hi, 0x31)
		}
		b.storeOctet(f.Bits, codesAt(i*f.Bits/2*run), run, 0, 4)
	}
}
