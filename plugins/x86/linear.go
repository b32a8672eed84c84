package x86

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// tile is a configuration of OpLinear resolved against its problem: what one entry computes.
type tile struct {
	p   kernel.Problem
	isa ISA

	mr      int  // rows
	streams int  // panels walked at once
	vecs    int  // vectors of a panel computed at once; the rest follow in further passes
	ku      int  // k of one iteration of the inner loop
	rows    bool // operand order: rows outside, expanded weights kept; else weights outside
	hi      bool // own accumulators for nibble planes left in place
	fmem    bool // float accumulators in the output tile, else in registers
	imem    bool // int32 accumulators in scratch memory, else in registers, beside int16 sums
	panel   bool // weights are the panel that unpack made
	pf      int  // prefetch distance in bytes, 0 for none
	hint    uint8
}

// newTile reads a configuration; parameters with a single value are not in it.
func newTile(isa ISA, p kernel.Problem, c kernel.Config) tile {
	at := func(name string, absent int) int {
		if v, ok := c[name]; ok {
			return int(v)
		}
		return absent
	}
	return tile{p: p, isa: isa,
		mr: at(parMR, 1), streams: at(parStreams, 1), vecs: at(parVecs, 1), ku: at(parKU, int(unrolls(tile{p: p, isa: isa})[0])),
		rows: at(parOrder, 0) == 1, hi: at(parHi, 0) == 1, fmem: at(parFMem, 0) == 1, imem: at(parIMem, 0) == 1, panel: at(parPanel, 0) == 1,
		pf: at(parPrefetch, 0), hint: uint8(at(parHint, 1))}
}

func (t tile) codec() codec { return codecOf(t.p.Format, t.p.Arith, t.panel) }

// grouped reports whether scales are applied group by group: not for floats nor dequantised panels.
func (t tile) grouped() bool {
	return !t.p.Format.IsFloat() && !(t.panel && t.p.Arith == kernel.F32)
}

// span is the number of k between two applications of scales.
func (t tile) span() int {
	if t.grouped() {
		return t.p.Format.Group
	}
	return t.p.K
}

// width is the number of vectors, of all streams, computed at once, passes how often.
func (t tile) width() int  { return t.vecs * t.streams }
func (t tile) passes() int { return t.p.Layout.Cols * t.isa.Halves() / t.vecs }

// dot is how products are accumulated.
type dot int

const (
	dotVNNI   dot = iota // one instruction accumulates to int32
	dotFMA               // f32
	dotNibble            // A8 without VNNI, codes of 4 or 6 bits: int16 sums of some products, then widened
	dotByte              // A8 without VNNI, 8-bit codes: |w| times a with the sign of w
	dotWord              // A16 without VNNI
)

func (t tile) dot() dot {
	switch {
	case t.p.Arith == kernel.F32:
		return dotFMA
	case t.isa.VNNI:
		return dotVNNI
	case t.p.Arith == kernel.A16:
		return dotWord
	case t.p.Format.Bits < 8:
		return dotNibble
	}
	return dotByte
}

// staged reports whether products have a register of their own before they are added.
func (d dot) staged() bool { return d != dotVNNI && d != dotFMA }

// nibbleK is the k that int16 sums hold, of 4 k to a product of pairs. 8*2*15*127 is less than 32768;
// of 6-bit codes two products would fit, but the registers of their sums are worth more than the
// additions saved.
func (t tile) nibbleK() int {
	if t.p.Format.Bits == 6 {
		return 4
	}
	return 32
}

// wide reports whether int16 sums are added to int32 accumulators within a group, sums16 whether they
// have registers of their own meanwhile.
func (t tile) wide() bool   { return t.dot() == dotNibble && t.p.Format.Group > t.nibbleK() }
func (t tile) sums16() bool { return t.wide() && t.nibbleK() > 4 }

// unrolled reports whether one iteration of the inner loop is a whole group.
func (t tile) unrolled() bool { return t.ku == t.span() }

// narrow reports whether a group ends with its only int16 sums.
func (t tile) narrow() bool { return t.dot() == dotNibble && !t.wide() }

// sumCoef is what a group's accumulator owes for each unit of the sum of its activations: -Bias,
// but for signed weights, which are 128 less than the codes.
func (t tile) sumCoef() int {
	switch {
	case !t.grouped():
		return 0
	case t.dot() == dotByte:
		return 128 - t.p.Format.Bias
	}
	return -t.p.Format.Bias
}

// floatZero is 1.5*2^23 as a float.
const floatZero = 0x4b400000

// asFloats reports whether integer sums start at floatZero: read as a float, such a sum x is floatZero +
// x as long as |x| < 2^22, and one FMA, s*(floatZero + x) - s*floatZero, replaces its conversion and
// its product with a scale s. Exactly so: s has 11 bits, with a sub-scale 19, so both terms are exact,
// and |x| is at most 128*255*127.
func (t tile) asFloats() bool {
	return t.isa.EVEX && t.p.Arith == kernel.A8 && t.grouped() && t.p.Format.Scale == kernel.ScaleF16
}

func (t tile) coefBits() uint32 {
	switch {
	case t.p.Arith == kernel.F32:
		return math.Float32bits(float32(t.sumCoef()))
	case t.asFloats():
		return uint32(uint16(int16(t.sumCoef())))
	}
	return uint32(int32(t.sumCoef()))
}

// stepBytes is the size of one step of all columns of a panel, runBytes of a run; panelBytes of a panel
// as main reads it.
func (t tile) stepBytes() int  { return 64 * t.p.Layout.Cols }
func (t tile) runBytes() int   { return t.codec().steps() * t.stepBytes() }
func (t tile) panelBytes() int { return t.p.K / t.codec().runK() * t.runBytes() }

// scalePanel is the size of a panel's scales.
func (t tile) scalePanel() int { return t.p.Layout.ScaleBytes(t.p.Format, t.p.K) }

// linear emits one entry.
type linear struct {
	*Emitter
	tile
	c codec

	acc, acc16, hiAcc []amd64.Vec // [row][vec] of one pass
	facc              []amd64.Vec // [row][pass][vec]
	w, v, wabs, b     []amd64.Vec // raw, expanded weights; absolute values; activations
	t                 amd64.Vec
	supers            []amd64.Vec // super-scales in float [pass][vec][scale, offset], if there are registers
	work              []amd64.Vec // free at the end of a group: idle ones that have no other use, and all of the above
	idle              int

	mask, maskHi, maskUp, ones, sign, coef any // constants: a register or, when there are none left, memory
	halves                                 [2]any
}

// General registers of an entry. RDI keeps the argument block.
const (
	regW, regS, regA, regSum, regScale = amd64.RSI, amd64.RDX, amd64.R8, amd64.R9, amd64.R10
	regOut, regLDC, regSuper           = amd64.R12, amd64.R13, amd64.RBX // regSuper: super-scales of a group
	regGroups, regInner                = amd64.RAX, amd64.RCX
	regLDC3, regOut5, regOut10         = amd64.R15, amd64.R11, amd64.R14 // 3*LDC; rows 5 and 10 of Out
	regTmp                             = regOut10                        // scratch, of tiles of at most 10 rows
)

func newLinear(t tile) *linear {
	if t.imem && t.mr > 10 {
		panic("x86: row 10 of the output and scratch memory share a register")
	}
	l := &linear{Emitter: NewEmitter(t.isa), tile: t, c: t.codec()}
	l.operands() // first: instructions that read low registers are shorter
	n := t.mr * t.width()
	l.acc = l.Vecs(n)
	l.acc16 = l.acc
	if t.sums16() && !t.imem {
		l.acc16 = l.Vecs(n)
	}
	if t.hi {
		l.hiAcc = l.Vecs(n)
	}
	if t.grouped() && !t.fmem {
		l.facc = l.Vecs(n * t.passes())
	}
	l.constants()
	return l
}

// operands allocates the registers that hold operands of multiply-accumulates.
func (l *linear) operands() {
	nw := 1
	if l.rows {
		nw = l.width()
		l.b = l.Vecs(1)
	} else {
		if !l.isa.EVEX {
			l.b = l.Vecs(l.mr * l.c.planes)
		}
		l.w = l.Vecs(1)
	}
	l.v = l.w
	if l.rows || l.c.planes > 1 {
		l.v = l.Vecs(nw)
	}
	if l.dot() == dotByte {
		l.wabs = l.Vecs(nw)
	}
	if l.dot().staged() || l.c.bits == 6 {
		l.t = l.Vec()
		l.work = append(l.work, l.t)
	}
	l.work = append(l.work, l.b...)
	l.work = append(l.work, l.v...)
	l.work = append(l.work, l.wabs...)
	if !l.rows && l.c.planes > 1 {
		l.work = append(l.work, l.w...)
	}
	for len(l.work) < l.groupRegs() {
		l.work = append(l.work, l.Vec())
	}
}

// groupRegs is how many registers the end of a group needs at least: the scale, the offset, what goes
// with them and a row's value.
func (t tile) groupRegs() int {
	if !t.grouped() {
		return 1
	}
	return t.scaleRegs() + 1
}

// constants places the constants that the tile uses, in registers while there are any.
func (l *linear) constants() {
	l.masks()
	d := l.dot()
	l.ones = l.constant(d == dotNibble || d == dotByte, 0x00010001)
	l.sign = l.constant(d == dotByte, 0x80808080)
	l.coef = l.constant(l.sumCoef() != 0, l.coefBits())
	n, other := l.width()*l.passes()*l.scaleKinds(), 0
	if l.isa.EVEX {
		other = l.width() * l.scaleRegs() // for scales from the start of a group on: worth more there
	}
	if l.super() && l.Free() >= n+other {
		l.supers = l.Vecs(n)
	}
	l.idle = l.Free()
	l.work = append(l.Vecs(l.idle), l.work...)
}

func (l *linear) constant(use bool, bits uint32) any {
	switch {
	case !use:
		return nil
	case l.Free() > 0:
		v := l.Vec()
		l.fill(v, bits)
		return v
	}
	return l.k32(bits)
}

// masks places what the codec needs.
func (l *linear) masks() {
	mask := uint32(0)
	switch b, arith := l.c.bits, l.p.Arith; {
	case b < 8 && arith == kernel.A8:
		mask = 0x0f0f0f0f
	case b < 8 && arith == kernel.A16:
		mask = 0x000f000f
	case b < 8:
		mask = 0xf
	case b == 8 && arith == kernel.A16:
		mask = 0x00ff00ff
	case b == 8 && arith == kernel.F32:
		mask = 0xff
	case b == 16 && arith == kernel.F32 && l.p.Format.Scale == kernel.ScaleBF16:
		mask = 0xffff0000
	}
	l.mask = l.constant(mask != 0, mask)
	l.maskUp = l.constant(l.c.bits == 6, mask&0x33333333<<4)
	l.maskHi = l.constant(l.hi, mask<<4)
	if b := l.c.bits; b == 16 && l.p.Arith == kernel.F32 && !l.isa.EVEX {
		for i := range uint32(2) {
			lo, hi := 0x05040100+0x02020202*i, 0x0d0c0908+0x02020202*i
			l.halves[i] = l.words(lo, hi, 0, 0, lo, hi, 0, 0)
		}
	}
}
