package x86

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// group emits one group of an integer arithmetic: s = amax/QMax, codes x*(QMax/amax) rounded to
// nearest even, s, the sum of the codes. The first hold vectors stay in registers, others are made
// twice.
func (q *quant) group(hold int) {
	amax, vals, t := q.Vec(), q.Vecs(hold), q.Vec()
	q.Zero(amax)
	for i := range q.p.Act.Group / q.ISA.Lanes {
		v := t
		if i < hold {
			v = vals[i]
		}
		q.value(v, i*q.ISA.Lanes, q.whole())
		// Magnitudes order as integers do, and a NaN is above infinity.
		q.And(t, v, q.k32(math.MaxInt32))
		q.Op(amd64.VPMAXSD, amax, amax, t)
	}
	q.Release(t)
	inv := q.scale(amax)
	q.codes(vals, inv)
	q.Release(inv)
	q.advance(q.p.Act.Group)
	q.AddI(qScale, q.step())
	q.AddI(qSum, q.step())
}

// scale stores the group's scale and returns its inverse in every lane, in the register of amax.
// Both are 0 where the scale would be subnormal.
func (q *quant) scale(amax amd64.Vec) amd64.Vec {
	top := q.fold(amd64.VPMAXSD, amax)
	s, t := Low(q.Vec()), Low(q.Vec())
	qmax := q.sf(float32(q.p.Act.Arith.QMax()))
	q.Op(amd64.VDIVSS, s, top, qmax)
	q.Op(amd64.VMOVSS, t, qmax)
	q.Op(amd64.VDIVSS, top, t, top)
	const notLess = 0x15 // or unordered: a NaN stays
	if q.ISA.EVEX {
		q.fillF(t, 0x1p-126)
		q.Op(amd64.VCMPPS, amd64.KReg(1), s, t, notLess)
		q.Op(amd64.VMOVAPS, s, s, amd64.KReg(1), amd64.ZeroMask)
		q.Op(amd64.VMOVAPS, top, top, amd64.KReg(1), amd64.ZeroMask)
	} else {
		q.Op(amd64.VCMPPS, t, s, q.kf(0x1p-126), notLess)
		q.And(s, s, t)
		q.And(top, top, t)
	}
	q.Op(amd64.VMOVSSS, amd64.M(qScale, 0), s)
	q.Release(s, t)
	return q.spread(top)
}

// codes rounds, packs and stores the values of a group, 16 at a time; vals are those held.
func (q *quant) codes(vals []amd64.Vec, inv amd64.Vec) {
	sum := q.Vec()
	q.Zero(sum)
	var again []amd64.Vec
	h := q.ISA.Halves()
	for at := 0; at < q.p.Act.Group; at += 16 {
		var run []amd64.Vec
		if i := at / q.ISA.Lanes; i < len(vals) {
			run = vals[i : i+h]
		} else {
			if again == nil {
				again = q.Vecs(h)
			}
			run = again
			for i, v := range run {
				q.value(v, at+i*q.ISA.Lanes, q.whole())
			}
		}
		for _, v := range run {
			q.Op(amd64.VMULPS, v, v, inv)
			q.Op(amd64.VCVTPS2DQ, v, v)
			q.Op(amd64.VPADDD, sum, sum, v)
		}
		bytes := q.p.Act.Arith.Bytes()
		q.storeDwords(at*bytes/4, q.pack(run), 4*bytes)
	}
	q.Release(vals...)
	q.Release(again...)
	q.Op(amd64.VMOVDS, amd64.M(qSum, 0), q.fold(amd64.VPADDD, sum))
	q.Release(sum)
}

// pack turns 16 codes of 32 bits into the dwords of the arithmetic, in the first register of run.
func (q *quant) pack(run []amd64.Vec) amd64.Vec {
	v := run[0]
	if q.p.Act.Arith == kernel.A8 {
		if q.ISA.EVEX {
			q.Op(amd64.VPMOVSDB, Low(v), v)
			return Low(v)
		}
		// Words a0-3 b0-3 | a4-7 b4-7, bytes a0-3 b0-3 a4-7 b4-7, dwords in order.
		q.Op(amd64.VPACKSSDW, v, v, run[1])
		q.Op(amd64.VEXTRACTI128, Low(run[1]), v, 1)
		q.Op(amd64.VPACKSSWB, Low(v), Low(v), Low(run[1]))
		q.Op(amd64.VPSHUFD, Low(v), Low(v), 0xd8)
		return Low(v)
	}
	if q.ISA.EVEX {
		q.Op(amd64.VPMOVSDW, Half(v), v)
		v = Half(v)
	} else {
		q.Op(amd64.VPACKSSDW, v, v, run[1])
		q.Op(amd64.VPERMQ, v, v, 0xd8)
	}
	q.Op(amd64.VPSHUFB, v, v, q.words(a16Shuffle()...))
	return v
}

// a16Shuffle is the byte shuffle that puts every 8 words into kernel.A16Order, for two lanes.
func a16Shuffle() []uint32 {
	var w [8]uint32
	for i, k := range kernel.A16Order {
		word := uint32(2*k) | uint32(2*k+1)<<8
		w[i/2] |= word << (16 * (i % 2))
		w[4+i/2] = w[i/2]
	}
	return w[:]
}

// storeDwords stores the n lowest dwords of v as steps t, t+1 and so on of the current group. With
// one row per block they follow each other.
func (q *quant) storeDwords(t int, v amd64.Vec, n int) {
	if q.p.Act.MR == 1 && 4*n == 16<<v.L {
		q.Op(amd64.VMOVUPSS, amd64.M(qA, 4*t), v)
		return
	}
	tmp := q.Vec()
	for i := range n {
		q.storeDword(amd64.M(qA, (t+i)*q.step()), q.lane(v, tmp, i), i%4)
	}
	q.Release(tmp)
}

// floats emits F32 arithmetic: the values themselves, with their sums if there are groups.
func (q *quant) floats() {
	chunk := q.p.Act.Group
	if chunk == 0 {
		chunk = 4 * q.ISA.Lanes
	}
	if n := q.p.K / chunk; n > 0 {
		q.times(qCount, n, func() { q.floatChunk(chunk) })
	}
	if rest := q.p.K % chunk; rest > 0 {
		q.floatChunk(rest)
	}
}

func (q *quant) floatChunk(n int) {
	sum, v := q.Vec(), q.Vec()
	q.Zero(sum)
	q.runs(n, func(at int, p part) {
		q.value(v, at, p)
		if q.p.Act.Group > 0 {
			q.Op(amd64.VADDPS, sum, sum, v)
		}
		if q.p.Act.MR == 1 {
			q.storePart(amd64.M(qA, 4*at), v, p)
		} else {
			q.storeDwords(at, v, p.n)
		}
	})
	if q.p.Act.Group > 0 {
		q.Op(amd64.VMOVSSS, amd64.M(qSum, 0), q.fold(amd64.VADDPS, sum))
		q.AddI(qSum, q.step())
	}
	q.Release(sum, v)
	q.advance(n)
}
