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

// expPoly approximates (e^r - 1 - r)/r^2 on |r| <= ln2/2: minimax in the relative error of e^r
// (3e-9), by Lawson's iteration.
var expPoly = [...]float32{0.499999934, 0.1666651997, 0.04166839584, 0.008368796892, 0.001381443105}

// erfcPoly approximates ln(erfc(x))/x on [0, 4]: minimax in the absolute error of erfc (2e-8).
// Beyond 4 it falls faster than the function, so that e^ of it vanishes as erfc does.
var erfcPoly = [...]float32{-1.128380252, -0.6365977331, -0.1029196148, 0.01958396331,
	-0.0005369364556, -0.001032400063, 0.0003088018007, -3.144013173e-05}

// exp replaces x by e^x, with a relative error below 2e-7: e^x = 2^n e^r, n = round(x/ln2). Of
// -Inf it makes exactly 0, of 0 exactly 1, and a NaN stays one. It works at any vector length.
func (e *Emitter) exp(x amd64.Vec) {
	t, n := sized(e.Vec(), x), sized(e.Vec(), x)
	e.fillF(t, expLo)
	e.Op(amd64.VMAXPS, x, t, x) // the second source wins when x is a NaN
	e.fillF(t, expHi)
	e.Op(amd64.VMINPS, x, t, x)
	// Adding 1.5*2^23 rounds to an integer that lands in the low bits, the exponent bias with it.
	const magic = 3<<22 + 127
	e.fillF(t, magic)
	e.Op(amd64.VFMADD231PS, t, x, e.kf(math.Log2E))
	e.Op(amd64.VSUBPS, n, t, e.kf(magic))
	const hi = float32(math.Ln2)
	lo := float32(math.Ln2 - float64(hi))
	e.Op(amd64.VFNMADD231PS, x, n, e.kf(hi))
	e.Op(amd64.VFNMADD231PS, x, n, e.kf(lo))
	e.horner(n, x, append([]float32{1, 1}, expPoly[:]...))
	e.Op(amd64.VPSLLD, t, t, 23) // 2^n; n = -127 makes 0, 128 infinity
	e.Op(amd64.VMULPS, x, n, t)
	e.Release(t, n)
}

// horner evaluates the polynomial c[0] + c[1] x + ... into d.
func (e *Emitter) horner(d, x amd64.Vec, c []float32) {
	e.fillF(d, c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		e.Op(amd64.VFMADD213PS, d, x, e.kf(c[i]))
	}
}

func sized(v, like amd64.Vec) amd64.Vec { return amd64.Vec{N: v.N, L: like.L} }

// gate replaces x by the activation of a gated MLP.
func (e *Emitter) gate(g kernel.Gate, x amd64.Vec) {
	switch g {
	case kernel.GateSiLU:
		z := e.Vec()
		e.Move(z, x)
		e.sigmoidTimes(x, z)
		e.Release(z)
	case kernel.GateGELUTan:
		// tanh(u) = 2 sigmoid(2u) - 1, so the gate is x sigmoid(2u), 2u = x (c0 + c1 x^2).
		z := e.Vec()
		e.fillF(z, float32(2*math.Sqrt(2/math.Pi)*0.044715))
		e.Op(amd64.VMULPS, z, z, x)
		c0 := e.kf(float32(2 * math.Sqrt(2/math.Pi)))
		e.Op(amd64.VFMADD213PS, z, x, c0)
		e.Op(amd64.VMULPS, z, z, x)
		e.sigmoidTimes(x, z)
		e.Release(z)
	case kernel.GateGELU:
		e.gelu(x)
	}
}

// sigmoidTimes is x = x / (1 + e^-z); it clobbers z.
func (e *Emitter) sigmoidTimes(x, z amd64.Vec) {
	e.Xor(z, z, e.k32(1<<31))
	e.exp(z)
	e.Op(amd64.VADDPS, z, z, e.kf(1))
	e.Op(amd64.VDIVPS, x, x, z)
}

// gelu is x Phi(x) = max(x, 0) - |x|/2 erfc(|x|/sqrt2), which keeps the relative error small on the
// left tail.
func (e *Emitter) gelu(x amd64.Vec) {
	a, g := e.Vec(), e.Vec()
	e.And(a, x, e.k32(math.MaxInt32))
	e.Op(amd64.VMULPS, a, a, e.kf(math.Sqrt2/2))
	e.erfc(g, a)
	e.Op(amd64.VMULPS, g, g, a)
	e.Zero(a)
	e.Op(amd64.VMAXPS, x, a, x)
	e.Op(amd64.VFNMADD231PS, x, g, e.kf(math.Sqrt2/2))
	e.Release(a, g)
}

// erfc is d = erfc(a) for a >= 0, with an absolute error below 2e-7.
func (e *Emitter) erfc(d, a amd64.Vec) {
	e.horner(d, a, erfcPoly[:])
	e.Op(amd64.VMULPS, d, d, a)
	e.exp(d)
}
