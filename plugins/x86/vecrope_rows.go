package x86

import (
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// This file emits the entry "rows" of OpRope. The heads of all tokens, one after another, are its lines.
// Where elements are strided, lines are adjacent: several go to scratch, as floats, and from there to
// Out, transposed, in whole vectors.

// ropeRun is how many elements of a line are transposed together.
const ropeRun = 4

// Scratch begins with where the token's X and Out begin.
const (
	ropeTokenX   = 0
	ropeTokenOut = 8
	ropeLines    = 64
)

// groups lists how many lines are stored together, largest first.
func (r *rope) groups() []int {
	var g []int
	if r.ISA.EVEX {
		g = append(g, 16)
	}
	if g = append(g, 8); r.p.Elem == kernel.ElemF32 {
		g = append(g, 4) // of 16-bit elements these were less than any vector
	}
	return append(g, 1)
}

// pitch is the distance of lines in scratch; a line more keeps them from falling onto the same sets.
func (r *rope) pitch() int { return (4*r.p.Dim+63)&^63 + 64 }

func (r *rope) scratch() int { return ropeLines + r.groups()[0]*r.pitch() }

// rows emits the entry. rHeads counts all lines, rHead those of the token.
func (r *rope) rows() amd64.Label {
	var args kernel.RopeRowsArgs
	entry, done, strided := r.Here(), r.NewLabel(), r.NewLabel()
	r.loadArgs()
	r.Mov(rHead, rHeads)
	r.arg(amd64.RAX, unsafe.Offsetof(args.Rows))
	r.Imul(rHeads, amd64.RAX)
	r.CmpI(rHeads, 1)
	r.Jcc(amd64.CcL, done)
	r.arg(amd64.RAX, unsafe.Offsetof(args.Tmp))
	r.Store(amd64.M(amd64.RAX, ropeTokenX), rX)
	r.Store(amd64.M(amd64.RAX, ropeTokenOut), rOut)
	r.CmpI(rElem, r.p.Elem.Bytes())
	r.Jcc(amd64.CcNE, strided)
	r.strided = false
	top := r.Here()
	r.head()
	r.next(true)
	r.Dec(rHeads)
	r.Jcc(amd64.CcNE, top)
	r.Ret()
	r.Bind(strided)
	for _, n := range r.groups() {
		end := r.NewLabel()
		top := r.Here()
		r.CmpI(rHeads, n)
		r.Jcc(amd64.CcL, end)
		if n > 1 {
			r.toScratch(n)
			r.transpose(n)
		} else {
			r.strided = true
			r.head()
			r.next(false)
		}
		r.AddI(rOut, n*r.p.Elem.Bytes())
		r.SubI(rHeads, n)
		r.Jmp(top)
		r.Bind(end)
	}
	r.Bind(done)
	r.Ret()
	return entry
}

// next goes on to the next line: X, Bias, behind the heads of a token Cos and Sin, and Out if told.
func (r *rope) next(out bool) {
	var args kernel.RopeRowsArgs
	same := r.NewLabel()
	r.AddI(rX, 4*r.p.Dim)
	r.nextBias()
	if out {
		r.AddM(rOut, amd64.M(amd64.RDI, int(unsafe.Offsetof(args.HeadStride))))
	}
	r.Dec(rHead)
	r.Jcc(amd64.CcNE, same)
	r.arg(rHead, unsafe.Offsetof(args.Heads))
	r.firstBias()
	r.arg(amd64.RAX, unsafe.Offsetof(args.Tmp))
	r.nextToken(rX, ropeTokenX, unsafe.Offsetof(args.XStride))
	if out {
		r.nextToken(rOut, ropeTokenOut, unsafe.Offsetof(args.RowStride))
	}
	r.AddM(rCos, amd64.M(amd64.RDI, int(unsafe.Offsetof(args.TurnStride))))
	r.AddM(rSin, amd64.M(amd64.RDI, int(unsafe.Offsetof(args.TurnStride))))
	r.Bind(same)
}

// nextToken moves p to where it is for the next token; RAX points at scratch.
func (r *rope) nextToken(p amd64.Reg, began int, stride uintptr) {
	r.Load(p, amd64.M(amd64.RAX, began))
	r.AddM(p, amd64.M(amd64.RDI, int(stride)))
	r.Store(amd64.M(amd64.RAX, began), p)
}

// toScratch puts n lines there.
func (r *rope) toScratch(n int) {
	const line, left = amd64.R15, amd64.RBX
	var args kernel.RopeRowsArgs
	r.arg(line, unsafe.Offsetof(args.Tmp))
	r.AddI(line, ropeLines)
	r.out, r.elem = line, kernel.ElemF32
	r.times(left, n, func() {
		r.head()
		r.next(false)
		r.AddI(line, r.pitch())
	})
	r.out, r.elem = rOut, r.p.Elem
}

// transpose stores n lines from scratch. Each 128 bits of a vector are those of four lines.
func (r *rope) transpose(n int) {
	const from, to = amd64.R15, amd64.RBX
	var args kernel.RopeRowsArgs
	r.arg(from, unsafe.Offsetof(args.Tmp))
	r.AddI(from, ropeLines)
	r.Mov(to, rOut)
	v, t := r.Vecs(4), r.Vecs(4)
	for i := range v {
		v[i].L = uint8(n / 8)
		t[i].L = v[i].L
	}
	insert := r.pick(amd64.VINSERTF128, amd64.VINSERTF32X4)
	at := [...]amd64.Mem{amd64.M(to, 0), amd64.MX(to, rElem, 1, 0), amd64.MX(to, rElem, 2, 0), amd64.MX(to, rElem3, 1, 0)}
	r.times(amd64.RAX, r.p.Dim/ropeRun, func() {
		for i, v := range v {
			r.Op(amd64.VMOVUPS, Low(v), amd64.M(from, i*r.pitch()))
			for q := 1; q < n/4; q++ {
				r.Op(insert, v, v, amd64.M(from, (4*q+i)*r.pitch()), q)
			}
		}
		for i := range 2 {
			r.Op(amd64.VUNPCKLPS, t[i], v[2*i], v[2*i+1])
			r.Op(amd64.VUNPCKHPS, t[2+i], v[2*i], v[2*i+1])
		}
		for i, v := range v {
			r.Op(amd64.VSHUFPS, v, t[i/2*2], t[i/2*2+1], [...]int{0x44, 0xee}[i%2])
			if r.p.Elem != kernel.ElemF32 {
				v = r.narrow(v)
			}
			r.Op(amd64.VMOVUPSS, at[i], v)
		}
		r.AddI(from, 4*ropeRun)
		r.Lea(to, amd64.MX(to, rElem, 4, 0))
	})
	r.Release(v...)
	r.Release(t...)
}
