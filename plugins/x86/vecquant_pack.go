package x86

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// integers emits an integer arithmetic: for each group s = amax/QMax, codes x*(QMax/amax) rounded to
// nearest even, s and the sum of the codes.
func (q *quant) integers(groups int) {
	n := q.p.K / q.p.Act.Group
	if n >= groups {
		q.times(qCount, n/groups, func() { q.groups(groups) })
	}
	if n%groups > 0 {
		q.groups(n % groups)
	}
}

// groups emits n interleaved groups. The first hold vectors of each stay in registers.
func (q *quant) groups(n int) {
	inv, vals := q.Vecs(n), q.matrix(n, q.hold)
	size := q.p.Act.Group
	for g, amax := range inv {
		q.Zero(amax)
		q.values(g*size, vals[g], amax)
	}
	q.scales(inv)
	sum := q.Vecs(n)
	for g := range n {
		q.codes(g*size, vals[g], inv[g], sum[g])
	}
	q.fold(amd64.VPADDD, sum...)
	for g, s := range sum {
		q.Op(amd64.VMOVDS, amd64.M(qSum, g*q.step()), Low(s))
	}
	q.Release(sum...)
	q.Release(inv...)
	q.releaseMatrix(vals)
	q.advance(n * size)
	q.AddI(qScale, n*q.step())
	q.AddI(qSum, n*q.step())
}

// gateAhead is how many bytes ahead gate and up are fetched: many rows of them fit no cache.
const gateAhead = 1024

// values makes the group at element first and finds the lanes' largest magnitudes: as many vectors as
// there are vals stay there, the others go to scratch memory, or are lost.
func (q *quant) values(first int, vals []amd64.Vec, amax amd64.Vec) {
	t := q.Vec()
	batch := func(at int, v []amd64.Vec) {
		if q.p.Pre == kernel.PreGLU {
			for i := 0; i < len(v)*q.ISA.Bytes(); i += 64 {
				off := 4*(first+at*q.ISA.Lanes) + i + gateAhead
				q.Prefetch(1, amd64.M(qX, off))
				q.Prefetch(1, amd64.M(qY, off))
			}
		}
		q.value(first+at*q.ISA.Lanes, q.whole(), v...)
		for _, v := range v {
			// Magnitudes order as integers do, and a NaN is above infinity.
			q.And(t, v, q.k32(math.MaxInt32))
			q.Op(amd64.VPMAXSD, amax, amax, t)
		}
	}
	width := max(1, len(vals))
	if q.chains > 0 {
		width = q.chains
	}
	for i := 0; i < len(vals); i += width {
		batch(i, vals[i:min(i+width, len(vals))])
	}
	if !q.scratch() {
		width = 1
	}
	n := q.p.Act.Group / q.ISA.Lanes
	more := q.Vecs(min(width, n-len(vals)))
	for i := len(vals); i < n; i += width {
		v := more[:min(width, n-i)]
		batch(i, v)
		for j := range v {
			if q.scratch() {
				q.StoreV(q.kept(first+(i+j)*q.ISA.Lanes), v[j])
			}
		}
	}
	q.Release(more...)
	q.Release(t)
}

// kept is where scratch memory has the value of an element of the interleaved groups.
func (q *quant) kept(at int) amd64.Mem { return amd64.M(qTmp, 4*at) }

// scales turns the lanes' largest magnitudes of each group into the inverse of its scale, in every
// lane, and stores the scale. Both are 0 where the scale would be subnormal.
func (q *quant) scales(amax []amd64.Vec) {
	q.fold(amd64.VPMAXSD, amax...)
	qmax := q.sf(float32(q.p.Act.Arith.QMax()))
	s, t := q.Vecs(len(amax)), q.Vecs(len(amax))
	for g, a := range amax {
		q.Op(amd64.VDIVSS, Low(s[g]), Low(a), qmax)
	}
	for g, a := range amax {
		q.Op(amd64.VMOVSS, Low(t[g]), qmax)
		q.Op(amd64.VDIVSS, Low(a), Low(t[g]), Low(a))
	}
	for g, a := range amax {
		q.flush(Low(s[g]), Low(a), Low(t[g]))
		q.Op(amd64.VMOVSSS, amd64.M(qScale, g*q.step()), Low(s[g]))
	}
	for _, a := range amax {
		q.spread(a)
	}
	q.Release(s...)
	q.Release(t...)
}

// flush clears a scale below the smallest normal float, and its inverse. A NaN stays.
func (q *quant) flush(s, inv, t amd64.Vec) {
	const notLess = 0x15 // or unordered
	if !q.ISA.EVEX {
		q.Op(amd64.VCMPPS, t, s, q.kf(0x1p-126), notLess)
		q.And(s, s, t)
		q.And(inv, inv, t)
		return
	}
	k := amd64.KReg(2)
	q.Op(amd64.VCMPPS, k, s, q.kf(0x1p-126), notLess)
	q.Op(amd64.VMOVAPS, s, s, k, amd64.ZeroMask)
	q.Op(amd64.VMOVAPS, inv, inv, k, amd64.ZeroMask)
}

// codes rounds, packs and stores the group at element first, 16 values at a time, and adds up its
// codes; vals are the values held.
func (q *quant) codes(first int, vals []amd64.Vec, inv, sum amd64.Vec) {
	q.Zero(sum)
	h := q.ISA.Halves()
	var again []amd64.Vec
	if len(vals) < q.p.Act.Group/q.ISA.Lanes {
		again = q.Vecs(h)
	}
	for at := 0; at < q.p.Act.Group; at += 16 {
		run := again
		held := at/q.ISA.Lanes < len(vals)
		if held {
			run = vals[at/q.ISA.Lanes:][:h]
		} else if !q.scratch() {
			q.value(first+at, q.whole(), run...)
		}
		for i, v := range run {
			if q.scratch() && !held {
				q.Op(amd64.VMULPS, v, inv, q.kept(first+at+i*q.ISA.Lanes))
			} else {
				q.Op(amd64.VMULPS, v, v, inv)
			}
			q.Op(amd64.VCVTPS2DQ, v, v)
			q.Op(amd64.VPADDD, sum, sum, v)
		}
		bytes := q.p.Act.Arith.Bytes()
		q.storeDwords((first+at)*bytes/4, q.pack(run), 4*bytes)
	}
	q.Release(again...)
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
		q.value(at, p, v)
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
		q.fold(amd64.VADDPS, sum)
		q.Op(amd64.VMOVSSS, amd64.M(qSum, 0), Low(sum))
		q.AddI(qSum, q.step())
	}
	q.Release(sum, v)
	q.advance(n)
}
