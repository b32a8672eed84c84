package x86

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// store converts the run x and stores it as elements at, at+1 and so on of the head; strided runs
// go to the cursor, which they advance. It clobbers x.
func (r *rope) store(x amd64.Vec, at int, p part, cursor amd64.Reg) {
	if r.elem == kernel.ElemF32 {
		if !r.strided {
			r.storePart(amd64.M(r.out, 4*at), x, p)
			return
		}
		tmp := r.Vec()
		r.scatter(p.n, cursor, func(m amd64.Mem, i int) { r.storeDword(m, r.lane(x, tmp, i), i%4) })
		r.Release(tmp)
		return
	}
	h := r.narrow(x)
	tmp := Low(r.Vec())
	word := func(m amd64.Mem, i int) {
		src := Low(h)
		if i >= 8 {
			src = tmp
		}
		if i == 8 {
			r.Op(amd64.VEXTRACTI32X4, tmp, h, 1)
		}
		r.Op(amd64.VPEXTRW, m, src, i%8)
	}
	switch {
	case r.strided:
		r.scatter(p.n, cursor, word)
	case p.n == r.ISA.Lanes:
		r.Op(amd64.VMOVUPSS, amd64.M(r.out, 2*at), h)
	case r.ISA.EVEX:
		r.Op(amd64.VMOVDQU16S, amd64.M(r.out, 2*at), h, p.k)
	default:
		for i := range p.n {
			word(amd64.M(r.out, 2*(at+i)), i)
		}
	}
	r.Release(tmp)
}

// scatter calls f with the addresses of n elements from the cursor on, and advances it.
func (r *rope) scatter(n int, cursor amd64.Reg, f func(m amd64.Mem, i int)) {
	for i := range n {
		m := amd64.M(cursor, 0)
		switch i % 4 {
		case 1:
			m = amd64.MX(cursor, rElem, 1, 0)
		case 2:
			m = amd64.MX(cursor, rElem, 2, 0)
		case 3:
			m = amd64.MX(cursor, rElem3, 1, 0)
		}
		f(m, i)
		if i%4 == 3 {
			r.Lea(cursor, amd64.MX(cursor, rElem, 4, 0))
		}
	}
	for range n % 4 {
		r.Add(cursor, rElem)
	}
}

// narrow converts a vector to 16-bit elements, rounding to nearest even, in the lower half of x.
func (r *rope) narrow(x amd64.Vec) amd64.Vec {
	h := Half(x)
	if r.elem == kernel.ElemF16 {
		r.Op(amd64.VCVTPS2PH, h, x, 0)
		return h
	}
	t, nan := r.Vec(), r.Vec()
	t.L, nan.L = x.L, x.L
	// bits + 0x7fff + the lowest bit kept, or for a NaN bits with the quiet bit.
	r.Op(amd64.VPSRLD, t, x, 16)
	r.And(t, t, r.k32(1))
	r.Op(amd64.VPADDD, t, t, x)
	r.Op(amd64.VPADDD, t, t, r.k32(0x7fff))
	const unordered = 3
	if r.ISA.EVEX {
		r.Op(amd64.VCMPPS, amd64.KReg(2), x, x, unordered)
		r.Op(amd64.VPORD, t, x, r.k32(1<<22), amd64.KReg(2))
		r.Op(amd64.VPSRLD, t, t, 16)
		r.Op(amd64.VPMOVDW, h, t)
	} else {
		r.Op(amd64.VCMPPS, nan, x, x, unordered)
		r.Op(amd64.VPOR, x, x, r.k32(1<<22))
		r.Op(amd64.VBLENDVPS, t, t, x, nan)
		r.Op(amd64.VPSRLD, t, t, 16)
		r.Op(amd64.VEXTRACTI128, Low(nan), t, 1)
		r.Op(amd64.VPACKUSDW, h, Low(t), Low(nan))
	}
	r.Release(t, nan)
	return h
}
