package x86

import (
	"encoding/binary"
	"math"

	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// This file holds what the generators of the ops other than linear share: constants in the pool,
// partial vectors, loops and reductions. GPR use is fixed per generator; RAX is always scratch.

// k32 is a 32-bit constant in every lane, as the last operand of an arithmetic instruction.
func (e *Emitter) k32(bits uint32) amd64.Mem {
	if e.ISA.EVEX {
		return e.s32(bits).Bcast()
	}
	lanes := make([]uint32, e.ISA.Lanes)
	for i := range lanes {
		lanes[i] = bits
	}
	return e.words(lanes...)
}

// kf is a float in every lane.
func (e *Emitter) kf(f float32) amd64.Mem { return e.k32(math.Float32bits(f)) }

// s32 is one 32-bit constant, the operand of a scalar instruction.
func (e *Emitter) s32(bits uint32) amd64.Mem { return e.words(bits) }

// sf is one float.
func (e *Emitter) sf(f float32) amd64.Mem { return e.s32(math.Float32bits(f)) }

// words is a constant of several dwords.
func (e *Emitter) words(w ...uint32) amd64.Mem {
	var b []byte
	for _, x := range w {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return e.Const(b)
}

// fill loads a 32-bit constant into every lane of v.
func (e *Emitter) fill(v amd64.Vec, bits uint32) { e.Op(amd64.VBROADCASTSS, v, e.s32(bits)) }

// fillF loads a float constant into every lane of v.
func (e *Emitter) fillF(v amd64.Vec, f float32) { e.fill(v, math.Float32bits(f)) }

// arg loads a field of the argument block at RDI.
func (e *Emitter) arg(d amd64.Reg, off uintptr) { e.Load(d, amd64.M(amd64.RDI, int(off))) }

// part is a run of n lanes of a vector; a run shorter than a vector has a mask (k or v).
type part struct {
	n int
	k amd64.KReg
	v amd64.Vec
}

// whole is a full vector.
func (e *Emitter) whole() part { return part{n: e.ISA.Lanes} }

// partial returns a run of n lanes. If n is short of a vector it sets up mask register k or takes
// a vector register, which donePart releases; it clobbers RAX.
func (e *Emitter) partial(n int, k amd64.KReg) part {
	p := part{n: n}
	if n == e.ISA.Lanes {
		return p
	}
	if e.ISA.EVEX {
		p.k = k
		e.MovI(amd64.RAX, 1<<n-1)
		e.KmovW(k, amd64.RAX)
		return p
	}
	mask := make([]uint32, e.ISA.Lanes)
	for i := range n {
		mask[i] = math.MaxUint32
	}
	p.v = e.Vec()
	e.Op(amd64.VMOVUPS, p.v, e.words(mask...))
	return p
}

func (e *Emitter) donePart(p part) {
	if p.n < e.ISA.Lanes && !e.ISA.EVEX {
		e.Release(p.v)
	}
}

// loadPart loads a run of floats; lanes beyond it become 0 and are not touched in memory.
func (e *Emitter) loadPart(d amd64.Vec, m amd64.Mem, p part) {
	switch {
	case p.n == e.ISA.Lanes:
		e.Op(amd64.VMOVUPS, d, m)
	case e.ISA.EVEX:
		e.Op(amd64.VMOVUPS, d, m, p.k, amd64.ZeroMask)
	default:
		e.Op(amd64.VMASKMOVPS, d, p.v, m)
	}
}

// storePart stores a run of floats and nothing beyond it.
func (e *Emitter) storePart(m amd64.Mem, s amd64.Vec, p part) {
	switch {
	case p.n == e.ISA.Lanes:
		e.Op(amd64.VMOVUPSS, m, s)
	case e.ISA.EVEX:
		e.Op(amd64.VMOVUPSS, m, s, p.k)
	default:
		e.Op(amd64.VMASKMOVPSS, m, p.v, s)
	}
}

// opPart is d = a op the run of floats at m.
func (e *Emitter) opPart(in amd64.Inst, d, a amd64.Vec, m amd64.Mem, p part) {
	if p.n == e.ISA.Lanes {
		e.Op(in, d, a, m)
		return
	}
	t := e.Vec()
	e.loadPart(t, m, p)
	e.Op(in, d, a, t)
	e.Release(t)
}

// runs calls f for consecutive runs that cover n elements, whole vectors first, then one shorter.
func (e *Emitter) runs(n int, f func(at int, p part)) {
	at := 0
	for ; at+e.ISA.Lanes <= n; at += e.ISA.Lanes {
		f(at, e.whole())
	}
	if at < n {
		p := e.partial(n-at, 1)
		f(at, p)
		e.donePart(p)
	}
}

// times runs body n times, counting down in c; n is a constant of at least 1.
func (e *Emitter) times(c amd64.Reg, n int, body func()) {
	if n == 1 {
		body()
		return
	}
	e.MovI(c, int64(n))
	top := e.Here()
	body()
	e.Dec(c)
	e.Jcc(amd64.CcNE, top)
}

// fold combines all lanes of each vector with op; every lane of its lowest 128 bits holds the
// result. The vectors' instructions are interleaved, as in all functions here that take several: a
// chain of dependent instructions fills the scheduler of an out-of-order core long before the next
// chain is in sight.
func (e *Emitter) fold(op amd64.Inst, v ...amd64.Vec) {
	t := e.Vecs(len(v))
	each := func(f func(v, t amd64.Vec)) {
		for i := range v {
			f(v[i], t[i])
		}
	}
	if v[0].L == 2 {
		each(func(v, t amd64.Vec) { e.Op(amd64.VEXTRACTF64X4, Half(t), v, 1) })
		each(func(v, t amd64.Vec) { e.Op(op, Half(v), Half(v), Half(t)) })
	}
	extract := e.pick(amd64.VEXTRACTF128, amd64.VEXTRACTF32X4)
	each(func(v, t amd64.Vec) { e.Op(extract, Low(t), amd64.Y(int(v.N)), 1) })
	each(func(v, t amd64.Vec) { e.Op(op, Low(v), Low(v), Low(t)) })
	for _, swap := range []int{0x4e, 0xb1} {
		each(func(v, t amd64.Vec) { e.Op(amd64.VPERMILPS, Low(t), Low(v), swap) })
		each(func(v, t amd64.Vec) { e.Op(op, Low(v), Low(v), Low(t)) })
	}
	e.Release(t...)
}

// spread copies lane 0 of s to every lane of a full vector of the same number.
func (e *Emitter) spread(s amd64.Vec) amd64.Vec {
	v := e.ISA.Reg(int(s.N))
	e.Op(amd64.VBROADCASTSS, v, Low(s))
	return v
}

// lane returns the xmm that holds dword i of v: v itself for the lowest four, else t loaded with
// the 128 bits around it when i starts them.
func (e *Emitter) lane(v, t amd64.Vec, i int) amd64.Vec {
	if i < 4 {
		return Low(v)
	}
	if i%4 == 0 {
		e.Op(e.pick(amd64.VEXTRACTI128, amd64.VEXTRACTI32X4), Low(t), v, i/4)
	}
	return Low(t)
}

// storeDword stores dword i of an xmm; vpextrd would need AVX512DQ.
func (e *Emitter) storeDword(m amd64.Mem, x amd64.Vec, i int) {
	if i == 0 {
		e.Op(amd64.VMOVDS, m, x)
		return
	}
	e.Op(amd64.VEXTRACTPS, m, x, i)
}
