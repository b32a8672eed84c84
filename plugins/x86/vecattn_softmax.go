package x86

import (
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// softmax turns the scores of the step into weights exp(s - max), row by row, updates Max and Sum,
// and leaves for each row the factor exp(old max - max) that its sums so far must be multiplied by.
func (a *attn) softmax() {
	const row, scores = amd64.R14, amd64.RDX
	a.MovI(row, 0)
	a.Mov(scores, aTmp)
	loop := a.Here()
	a.maskRow()
	top := a.rowMax()
	factor := a.newMax(top)
	a.weights(top, factor)
	a.Release(top, factor)
	a.AddI(scores, a.scoreRow())
	a.Inc(row)
	a.CmpI(row, a.p.M)
	a.Jcc(amd64.CcL, loop)
}

// eachBlock runs body for every block of the row of scores at RDX, with RSI at the block.
func (a *attn) eachBlock(body func()) {
	const block, count = amd64.RSI, amd64.RCX
	a.Mov(block, amd64.RDX)
	a.Mov(count, aCount)
	top := a.Here()
	body()
	a.AddI(block, kernel.KVBlock*4)
	a.Dec(count)
	a.Jcc(amd64.CcNE, top)
}

// half is the address of vector i of the block at RSI.
func (a *attn) half(i int) amd64.Mem { return amd64.M(amd64.RSI, i*a.ISA.Bytes()) }

// maskRow sets the scores that the row does not see to -Inf. A row that sees the whole step skips
// it.
func (a *attn) maskRow() {
	const lo, hi, row = amd64.RAX, amd64.RBX, amd64.R14
	var args kernel.AttnArgs
	skip, mask := a.NewLabel(), a.NewLabel()
	a.arg(lo, unsafe.Offsetof(args.Lo))
	a.LoadS32(lo, amd64.MX(lo, row, 4, 0))
	a.Sub(lo, aPos)
	a.arg(hi, unsafe.Offsetof(args.Hi))
	a.LoadS32(hi, amd64.MX(hi, row, 4, 0))
	a.Sub(hi, aPos)
	a.CmpI(lo, 0)
	a.Jcc(amd64.CcG, mask)
	a.Mov(amd64.RCX, aCount)
	a.Shl(amd64.RCX, 4)
	a.Cmp(hi, amd64.RCX)
	a.Jcc(amd64.CcGE, skip)
	a.Bind(mask)

	v := a.Vecs(3)
	lov, hiv, ninf := v[0], v[1], v[2]
	a.spreadReg(lov, lo)
	a.spreadReg(hiv, hi)
	a.fillF(ninf, float32(math.Inf(-1)))
	idx := a.Vecs(a.ISA.Halves())
	for i, x := range idx {
		a.Op(amd64.VMOVUPS, x, a.words(iota32(i*a.ISA.Lanes, a.ISA.Lanes)...))
	}
	s, t := a.Vec(), a.Vec()
	a.eachBlock(func() {
		for i, x := range idx {
			a.maskVec(s, t, x, lov, hiv, ninf, a.half(i))
			a.Op(amd64.VPADDD, x, x, a.k32(kernel.KVBlock))
		}
	})
	a.Release(s, t)
	a.Release(idx...)
	a.Release(v...)
	a.Bind(skip)
}

// maskVec keeps the scores at m whose index x has lo <= x < hi.
func (a *attn) maskVec(s, t, x, lo, hi, ninf amd64.Vec, m amd64.Mem) {
	if a.ISA.EVEX {
		const less, notLess = 1, 5
		k := amd64.KReg(1)
		a.Op(amd64.VPCMPD, k, x, lo, notLess)
		a.Op(amd64.VPCMPD, k, x, hi, less, k)
		a.Op(amd64.VBLENDMPS, s, ninf, m, k)
	} else {
		a.Op(amd64.VPCMPGTD, s, hi, x)
		a.Op(amd64.VPCMPGTD, t, lo, x)
		a.Op(amd64.VPANDN, t, t, s)
		a.Op(amd64.VBLENDVPS, s, ninf, m, t)
	}
	a.StoreV(m, s)
}

// spreadReg copies a general register's low dword to every lane.
func (e *Emitter) spreadReg(v amd64.Vec, r amd64.Reg) {
	if e.ISA.EVEX {
		e.Op(amd64.VPBROADCASTDR, v, r)
		return
	}
	e.Op(amd64.VMOVD, Low(v), r)
	e.Op(amd64.VPBROADCASTD, v, Low(v))
}

func iota32(from, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(from + i)
	}
	return out
}

// rowMax is the largest score of the row, in every lane of an xmm; a NaN does not count.
func (a *attn) rowMax() amd64.Vec {
	m := a.Vecs(a.ISA.Halves())
	s := a.Vec()
	for _, v := range m {
		a.fillF(v, float32(math.Inf(-1)))
	}
	a.eachBlock(func() {
		for i, v := range m {
			a.LoadV(s, a.half(i))
			a.Op(amd64.VMAXPS, v, s, v) // the second source wins when one is a NaN
		}
	})
	for _, v := range m[1:] {
		a.Op(amd64.VMAXPS, m[0], m[0], v)
	}
	a.Release(m[1:]...)
	a.Release(s)
	a.fold(amd64.VMAXPS, m[0])
	return Low(m[0])
}

// newMax updates the row's running maximum with top, which becomes the finite number to subtract
// from the row's scores, in every lane; it returns and stores the correction factor (an xmm).
func (a *attn) newMax(top amd64.Vec) amd64.Vec {
	const row, maxima = amd64.R14, amd64.RAX
	var args kernel.AttnArgs
	a.arg(maxima, unsafe.Offsetof(args.Max))
	at := amd64.MX(maxima, row, 4, 0)
	old := Low(a.Vec())
	a.Op(amd64.VBROADCASTSS, old, at)
	a.Op(amd64.VMAXPS, top, top, old)
	a.Op(amd64.VMOVSSS, at, top)
	// While a row has seen nothing its maximum is -Inf, and -Inf less itself a NaN.
	lowest := Low(a.Vec())
	a.fillF(lowest, -math.MaxFloat32)
	a.Op(amd64.VMAXPS, top, top, lowest)
	a.Release(lowest)
	a.Op(amd64.VSUBPS, old, old, top)
	a.exp(old)
	a.Op(amd64.VMOVSSS, amd64.MX(aTmp, row, 4, a.corrections()), old)
	a.spread(top)
	return old
}

// weights replaces the row's scores by exp(s - top) and updates its sum.
func (a *attn) weights(top, factor amd64.Vec) {
	const row, sums = amd64.R14, amd64.RAX
	var args kernel.AttnArgs
	x, sum := a.Vecs(a.ISA.Halves()), a.Vec()
	a.Zero(sum)
	full := a.ISA.Reg(int(top.N))
	a.eachBlock(func() {
		for i, v := range x {
			a.LoadV(v, a.half(i))
			a.Op(amd64.VSUBPS, v, v, full)
		}
		a.exp(x...)
		for i, v := range x {
			a.StoreV(a.half(i), v)
			a.Op(amd64.VADDPS, sum, sum, v)
		}
	})
	a.Release(x...)
	a.arg(sums, unsafe.Offsetof(args.Sum))
	at := amd64.MX(sums, row, 4, 0)
	a.fold(amd64.VADDPS, sum)
	a.Op(amd64.VFMADD231SS, Low(sum), factor, at)
	a.Op(amd64.VMOVSSS, at, Low(sum))
	a.Release(sum)
}
