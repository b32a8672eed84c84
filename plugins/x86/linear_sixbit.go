package x86

import "github.com/tilewright/tilewright/kernel/asm/amd64"

// sixBits is a run of 6-bit codes: two steps of lower nibbles, in memory, and one of upper bits, in
// memory or in a register. Bits 2i and 2i+1 of byte j of the latter belong to k = 4i+j.
type sixBits struct {
	lower [2]amd64.Mem
	upper any
}

// source is what expand reads of vector i of run r: memory, or if w is given, that register, which is
// loaded here (of 6-bit codes with the upper bits, which every plane needs).
func (l *linear) source(w []amd64.Vec, r, pass, i int) any {
	m := l.weights(r, pass, i)
	if l.c.bits != 6 {
		return l.loaded(w, m)
	}
	return sixBits{lower: [2]amd64.Mem{m, m.Add(l.stepBytes())}, upper: l.loaded(w, m.Add(2*l.stepBytes()))}
}

func (l *linear) loaded(w []amd64.Vec, m amd64.Mem) any {
	if len(w) == 0 {
		return m
	}
	l.LoadV(w[0], m)
	return w[0]
}

// expandSixBits8: plane p is the bytes of k = 4p to 4p+3.
func expandSixBits8(l *linear, d amd64.Vec, src any, p int) {
	s := src.(sixBits)
	l.upperBits(d, s.upper, amd64.VPSLLW, amd64.VPSRLW, 2*p)
	l.orLower(d, s.lower[p/2], amd64.VPSRLW, p%2*4)
}

// expandSixBits16: planes are the words of expandNibbles16, those of k = 8 to 15 after those before.
func expandSixBits16(l *linear, d amd64.Vec, src any, p int) {
	s, i := src.(sixBits), p%4
	l.upperBits(d, s.upper, amd64.VPSLLW, amd64.VPSRLW, i/2*8+i%2*2+p/4*4)
	l.orLower(d, s.lower[p/4], amd64.VPSRLW, 4*i)
}

// expandSixBits32: plane p is k = p as floats.
func expandSixBits32(l *linear, d amd64.Vec, src any, p int) {
	s := src.(sixBits)
	l.upperBits(d, s.upper, amd64.VPSLLD, amd64.VPSRLD, p%4*8+p/4*2)
	l.orLower(d, s.lower[p/8], amd64.VPSRLD, p%4*8+p/4%2*4)
	l.Op(amd64.VCVTDQ2PS, d, d)
}

// upperBits moves bits at and at+1 of every element to bits 4 and 5 and clears the others.
func (l *linear) upperBits(d amd64.Vec, src any, left, right amd64.Inst, at int) {
	switch {
	case at < 4:
		l.shift(left, d, src, 4-at)
		src = d
	case at > 4:
		l.shift(right, d, src, at-4)
		src = d
	}
	l.and(d, src, l.maskUp)
}

// orLower adds the nibble at bit at of every element.
func (l *linear) orLower(d amd64.Vec, src any, right amd64.Inst, at int) {
	if at > 0 {
		l.shift(right, l.t, src, at)
		src = l.t
	}
	if m, ok := l.mask.(amd64.Vec); ok && l.isa.EVEX {
		l.Op(amd64.VPTERNLOGD, d, m, src, 0xf8) // d | m & src
		return
	}
	l.and(l.t, src, l.mask)
	l.Op(l.pick(amd64.VPOR, amd64.VPORD), d, d, l.t)
}
