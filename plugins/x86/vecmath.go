package x86

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// Limits of exp's argument: the result is 0 below -87.7 and infinite above 88.4.
const (
	expLo = -88
	expHi = 88.7
)

// expMagic is 1.5*2^23 and the exponent's bias: adding it rounds to an integer that lands, biased, in
// the low bits.
const expMagic = 3<<22 + 127

// expPoly approximates (e^r - 1 - r)/r^2 on |r| <= ln2/2: minimax in the relative error of e^r
// (3e-9), by Lawson's iteration.
var expPoly = [...]float32{0.499999934, 0.1666651997, 0.04166839584, 0.008368796892, 0.001381443105}

// erfcPoly approximates ln(erfc(x))/x on [0, 4]: minimax in the absolute error of erfc (2e-8).
// Beyond 4 it falls faster than the function, so that e^ of it vanishes as erfc does.
var erfcPoly = [...]float32{-1.128380252, -0.6365977331, -0.1029196148, 0.01958396331,
	-0.0005369364556, -0.001032400063, 0.0003088018007, -3.144013173e-05}

// exp replaces each x by e^x, with a relative error below 2e-7: e^x = 2^n e^r, n = round(x/ln2). Of
// -Inf it makes exactly 0, of 0 exactly 1, and a NaN stays one. It works at any vector length and
// needs two registers for each x.
func (e *Emitter) exp(x ...amd64.Vec) {
	t, n := e.like(x), e.like(x)
	e.fillF(t[0], expLo)
	e.fillF(n[0], expHi)
	for _, x := range x {
		e.Op(amd64.VMAXPS, x, t[0], x) // the second source wins when x is a NaN
	}
	for _, x := range x {
		e.Op(amd64.VMINPS, x, n[0], x)
	}
	for i, x := range x {
		e.fillF(t[i], expMagic)
		e.Op(amd64.VFMADD231PS, t[i], x, e.kf(math.Log2E))
	}
	for i := range x {
		e.Op(amd64.VSUBPS, n[i], t[i], e.kf(expMagic))
	}
	const hi = float32(math.Ln2)
	for _, c := range []float32{hi, float32(math.Ln2 - float64(hi))} {
		for i, x := range x {
			e.Op(amd64.VFNMADD231PS, x, n[i], e.kf(c))
		}
	}
	e.horner(n, x, append([]float32{1, 1}, expPoly[:]...))
	for i, x := range x {
		e.Op(amd64.VPSLLD, t[i], t[i], 23) // 2^n; n = -127 makes 0, 128 infinity
		e.Op(amd64.VMULPS, x, n[i], t[i])
	}
	e.Release(t...)
	e.Release(n...)
}

// like takes as many registers as there are in x, of the same length.
func (e *Emitter) like(x []amd64.Vec) []amd64.Vec {
	v := e.Vecs(len(x))
	for i := range v {
		v[i].L = x[i].L
	}
	return v
}

// horner evaluates the polynomial c[0] + c[1] x + ... into d, for each x.
func (e *Emitter) horner(d, x []amd64.Vec, c []float32) {
	for i := range x {
		e.fillF(d[i], c[len(c)-1])
	}
	for k := len(c) - 2; k >= 0; k-- {
		for i := range x {
			e.Op(amd64.VFMADD213PS, d[i], x[i], e.kf(c[k]))
		}
	}
}

// each emits d = a op b for every d.
func (e *Emitter) each(in amd64.Inst, d, a []amd64.Vec, b any) {
	for i := range d {
		o := b
		if v, ok := b.([]amd64.Vec); ok {
			o = v[i]
		}
		e.Op(in, d[i], a[i], o)
	}
}

// gate replaces each x by the activation of a gated MLP. It needs gateTemps registers for each x.
func (e *Emitter) gate(g kernel.Gate, x ...amd64.Vec) {
	if g == kernel.GateGELU {
		e.gelu(x)
		return
	}
	z := e.like(x)
	if g == kernel.GateSiLU {
		for i := range x {
			e.Move(z[i], x[i])
		}
	} else {
		// tanh(u) = 2 sigmoid(2u) - 1, so the gate is x sigmoid(2u), 2u = x (c0 + c1 x^2).
		c0 := 2 * math.Sqrt(2/math.Pi)
		for i := range x {
			e.fillF(z[i], float32(c0*0.044715))
		}
		e.each(amd64.VMULPS, z, z, x)
		e.each(amd64.VFMADD213PS, z, x, e.kf(float32(c0)))
		e.each(amd64.VMULPS, z, z, x)
	}
	e.onePlusExp(z)
	e.divide(x, x, z)
	e.Release(z...)
}

// gateTemps is the number of registers that gate needs for each vector.
const gateTemps = 4

// exp2Poly approximates 2^r on |r| <= 1/2: minimax in the relative error (1.3e-7), coefficient by
// coefficient rounded to float32.
var exp2Poly = [...]float32{1.00000012, 0.693147421, 0.240219191, 0.0554968081, 0.00968481041, 0.00136692624}

// onePlusExp replaces each z by 1 + e^-z; it needs two registers for each. The exponential's relative
// error grows by 1.3e-8 |z|, from the rounding of log2 e: it is small where a sigmoid is not.
func (e *Emitter) onePlusExp(z []amd64.Vec) {
	t, n := e.like(z), e.like(z)
	e.fillF(t[0], -expHi)
	e.fillF(n[0], -expLo)
	for _, z := range z {
		e.Op(amd64.VMAXPS, z, t[0], z) // the second source wins when it is a NaN
	}
	for _, z := range z {
		e.Op(amd64.VMINPS, z, n[0], z)
	}
	// e^-z = 2^n 2^r, n rounded as in exp.
	for i := range z {
		e.fillF(t[i], expMagic)
	}
	e.each(amd64.VFNMADD231PS, t, z, e.kf(math.Log2E))
	e.each(amd64.VSUBPS, n, t, e.kf(expMagic))
	e.each(amd64.VFNMSUB231PS, n, z, e.kf(math.Log2E))
	e.horner(z, n, exp2Poly[:])
	for i := range t {
		e.Op(amd64.VPSLLD, t[i], t[i], 23) // n = -127 makes 0, 128 infinity
	}
	e.each(amd64.VFMADD213PS, z, t, e.kf(1))
	e.Release(t...)
	e.Release(n...)
}

// divide is q = x / d, of d >= 1; it needs a register for each and may clobber x and d. A 512-bit
// division takes 16 cycles or more: AVX-512 multiplies by a reciprocal of 14 bits after a step of
// Newton's iteration, which makes a NaN of infinite d that the minimum takes back.
func (e *Emitter) divide(q, x, d []amd64.Vec) {
	if !e.ISA.EVEX {
		e.each(amd64.VDIVPS, q, x, d)
		return
	}
	t := e.like(d)
	for i := range d {
		e.Op(amd64.VRCP14PS, t[i], d[i])
	}
	e.each(amd64.VFNMADD213PS, d, t, e.kf(2))
	e.each(amd64.VMULPS, x, x, t)
	e.each(amd64.VMINPS, d, d, e.kf(2))
	e.each(amd64.VMULPS, q, x, d)
	e.Release(t...)
}

// gelu is x Phi(x) = max(x, 0) - |x|/2 erfc(|x|/sqrt2), which keeps the relative error small on the
// left tail.
func (e *Emitter) gelu(x []amd64.Vec) {
	a, g := e.like(x), e.like(x)
	for i := range x {
		e.And(a[i], x[i], e.k32(math.MaxInt32))
	}
	e.each(amd64.VMULPS, a, a, e.kf(math.Sqrt2/2))
	e.erfc(g, a)
	e.each(amd64.VMULPS, g, g, a)
	for i := range x {
		e.Zero(a[i])
		e.Op(amd64.VMAXPS, x[i], a[i], x[i])
	}
	e.each(amd64.VFNMADD231PS, x, g, e.kf(math.Sqrt2/2))
	e.Release(a...)
	e.Release(g...)
}

// erfc is d = erfc(a) for a >= 0, with an absolute error below 2e-7.
func (e *Emitter) erfc(d, a []amd64.Vec) {
	e.horner(d, a, erfcPoly[:])
	e.each(amd64.VMULPS, d, d, a)
	e.exp(d...)
}
