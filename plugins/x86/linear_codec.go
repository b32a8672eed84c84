package x86

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// A codec turns a run of the weight stream into operands of multiply-accumulates. A run is one step of
// the layout, of 6-bit codes the three that hold 16 k (linear_sixbit.go). It expands to planes, each of which meets one activation step: planes of 4-bit codes in A8 hold four k, in A16
// two, in F32 one.
type codec struct {
	bits   int // of a code as it lies in the run
	planes int
	period int // runs after which activation steps repeat their pattern
	// step is the activation step of plane p of run r < period, counted from the first run.
	step func(r, p int) int
	// expand writes plane p of src (linear.source) to d; d may be src.
	expand func(l *linear, d amd64.Vec, src any, p int)
}

// runK is the number of k in a run, steps that of the layout's steps.
func (c codec) runK() int { return 32 * c.steps() / c.bits }

func (c codec) steps() int {
	if c.bits == 6 {
		return 3
	}
	return 1
}

// codecOf selects the codec for weights of a format, or for the panel that unpack made of them.
func codecOf(f kernel.Format, arith kernel.Arith, panel bool) codec {
	bits := f.Bits
	if panel {
		bits = 8 * arith.Bytes()
	}
	inOrder := func(planes int) func(r, p int) int { return func(_, p int) int { return p } }
	c := codec{bits: bits, period: 1}
	c.planes = c.runK() // of one k, in F32
	c.step = inOrder(c.planes)
	switch {
	case bits == 4 && arith == kernel.A8:
		c.planes, c.expand = 2, expandNibbles8
	case bits == 4 && arith == kernel.A16:
		c.planes, c.expand = 4, expandNibbles16
	case bits == 4:
		c.expand = func(l *linear, d amd64.Vec, src any, p int) { l.field(d, src, 8*(p%4)+4*(p/4), 4) }
	case bits == 6 && arith == kernel.A8:
		c.planes, c.expand = 4, expandSixBits8
	case bits == 6 && arith == kernel.A16:
		c.planes, c.expand = 8, expandSixBits16
	case bits == 6:
		c.expand = expandSixBits32
	case bits == 8 && arith == kernel.A16:
		c.planes, c.period, c.expand = 2, 2, expandBytes16
		c.step = func(r, p int) int { return r + 2*p }
	case bits == 8 && arith == kernel.F32:
		c.expand = func(l *linear, d amd64.Vec, src any, p int) { l.field(d, src, 8*p, 8) }
	case bits == 16 && arith == kernel.F32 && f.Scale == kernel.ScaleF16:
		c.expand = expandF16
	case bits == 16 && arith == kernel.F32:
		c.expand = expandBF16
	default: // A8 bytes, A16 words, floats: ready as they lie
		c.planes, c.expand = 1, func(l *linear, d amd64.Vec, src any, _ int) { l.move(d, src) }
	}
	return c
}

// inPlace reports whether plane p of nibbles stays where it is and has accumulators of its own, sixteen times
// too large: the one that would need a shift beside its mask. A sum of 128 k is at most 16*15*32767*32.
func (l *linear) inPlace(p int) bool { return l.hi && p == 1 }

// expandNibbles8: plane 0 the low nibbles (k0-3), plane 1 the high ones (k4-7), as bytes. With hi
// accumulators plane 1 stays in place, sixteen times too large.
func expandNibbles8(l *linear, d amd64.Vec, src any, p int) {
	switch {
	case p == 0:
		l.and(d, src, l.mask)
	case l.inPlace(p):
		l.and(d, src, l.maskHi)
	default:
		l.shift(amd64.VPSRLW, d, src, 4)
		l.and(d, d, l.mask)
	}
}

// expandNibbles16: words of plane p are nibbles p of the two words of the dword.
func expandNibbles16(l *linear, d amd64.Vec, src any, p int) {
	switch {
	case p == 0:
		l.and(d, src, l.mask)
	case l.inPlace(p):
		l.and(d, src, l.maskHi)
	case p == 3:
		l.shift(amd64.VPSRLW, d, src, 12)
	default:
		l.shift(amd64.VPSRLW, d, src, 4*p)
		l.and(d, d, l.mask)
	}
}

// expandBytes16: even bytes (k0, k2), then odd ones (k1, k3), as words.
func expandBytes16(l *linear, d amd64.Vec, src any, p int) {
	if p == 0 {
		l.and(d, src, l.mask)
		return
	}
	l.shift(amd64.VPSRLW, d, src, 8)
}

// expandF16: half p of every dword, converted.
func expandF16(l *linear, d amd64.Vec, src any, p int) {
	if l.ISA.EVEX {
		if p == 0 {
			l.move(d, src)
		} else {
			l.shift(amd64.VPSRLD, d, src, 16)
		}
		l.Op(amd64.VPMOVDW, Half(d), d)
		l.Op(amd64.VCVTPH2PS, d, Half(d))
		return
	}
	l.move(d, src)
	l.Op(amd64.VPSHUFB, d, d, l.halves[p]) // four halves in the low quadword of each lane
	l.Op(amd64.VPERMQ, d, d, 0x08)
	l.Op(amd64.VCVTPH2PS, d, Half(d))
}

// expandBF16: half p of every dword, moved to the upper half.
func expandBF16(l *linear, d amd64.Vec, src any, p int) {
	if p == 0 {
		l.shift(amd64.VPSLLD, d, src, 16)
		return
	}
	l.and(d, src, l.mask)
}

// field extracts bits [at, at+n) of every dword as a float.
func (l *linear) field(d amd64.Vec, src any, at, n int) {
	if at+n == 32 {
		l.shift(amd64.VPSRLD, d, src, at)
	} else {
		if at > 0 {
			l.shift(amd64.VPSRLD, d, src, at)
			src = d
		}
		l.and(d, src, l.mask)
	}
	l.Op(amd64.VCVTDQ2PS, d, d)
}

// move, shift and and take src from a register or from memory.
func (l *linear) move(d amd64.Vec, src any) {
	if src != any(d) {
		l.Op(amd64.VMOVUPS, d, src)
	}
}

func (l *linear) shift(in amd64.Inst, d amd64.Vec, src any, n int) {
	if _, mem := src.(amd64.Mem); mem && !l.ISA.EVEX {
		l.move(d, src)
		src = d
	}
	l.Op(in, d, src, n)
}

func (l *linear) and(d amd64.Vec, src, mask any) {
	if m, ok := mask.(amd64.Vec); ok {
		l.And(d, m, src)
		return
	}
	if _, mem := src.(amd64.Mem); mem {
		l.move(d, src)
		src = d
	}
	l.And(d, src.(amd64.Vec), mask)
}
