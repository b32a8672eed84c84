package x86

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

func init() {
	generators[kernel.OpRope] = generator{space: ropeSpace, emit: emitRope}
}

// General registers of OpRope. X is only read, and Out may be X, element for element.
const (
	rX      = amd64.RSI // the head
	rBias   = amd64.RDX
	rW      = amd64.RCX
	rCos    = amd64.R8
	rSin    = amd64.R9
	rOut    = amd64.R10
	rHeads  = amd64.R11
	rHead   = amd64.R12 // bytes between heads of Out
	rElem   = amd64.R13 // bytes between elements
	rElem3  = amd64.R14 // three times that
	rCursor = amd64.RBX // next element of the first half, strided stores
	rSecond = amd64.R15 // of the second half, then of what is not rotated
)

func ropeSpace(_ ISA, p kernel.Problem) (kernel.Space, error) {
	return kernel.Space{Version: "2"}, checkRope(p)
}

func checkRope(p kernel.Problem) error {
	no := func(why string) error { return fmt.Errorf("%w: %s: %s", kernel.ErrUnsupported, p, why) }
	switch {
	case p.Dim < 2 || p.Dim > 1024:
		return no("the head dimension must be 2 to 1024")
	case p.Rot < 0 || p.Rot%2 != 0 || p.Rot > p.Dim:
		return no("rotated dimensions must be an even number up to the head dimension")
	case p.Elem != kernel.ElemF32 && p.Elem != kernel.ElemF16 && p.Elem != kernel.ElemBF16:
		return no("no element type " + string(p.Elem))
	}
	return nil
}

// rope emits one OpRope.
type rope struct {
	*Emitter
	p       kernel.Problem
	scale   amd64.Vec // *Scale in every lane
	factor  amd64.Vec // scale, times 1/rms if there is a norm
	strided bool
	out     amd64.Reg       // where the head's elements go, unless they are strided
	elem    kernel.ElemType // as what they are stored there
}

// emitRope emits two versions of the loop over heads, for contiguous and for strided elements, and the
// entry for several tokens.
func emitRope(isa ISA, p kernel.Problem, _ kernel.Config) (Code, error) {
	if err := checkRope(p); err != nil {
		return Code{}, err
	}
	r := &rope{Emitter: NewEmitter(isa), p: p, out: rOut, elem: p.Elem}
	r.scale, r.factor = r.Vec(), r.Vec()
	r.loadArgs()
	done, strided := r.NewLabel(), r.NewLabel()
	r.CmpI(rHeads, 1)
	r.Jcc(amd64.CcL, done)
	r.CmpI(rElem, p.Elem.Bytes())
	r.Jcc(amd64.CcNE, strided)
	r.heads()
	r.Bind(done)
	r.Ret()
	r.Bind(strided)
	r.strided = true
	r.heads()
	r.Ret()
	if p.Dim%ropeRun != 0 {
		return finish(r.Emitter, kernel.Exec{})
	}
	rows := r.rows()
	c, err := finish(r.Emitter, kernel.Exec{ScratchBytes: r.scratch()})
	if err == nil {
		c.Entries[kernel.EntryRows] = r.Offset(rows)
	}
	return c, err
}

func (r *rope) loadArgs() {
	var args kernel.RopeArgs
	r.arg(amd64.RAX, unsafe.Offsetof(args.Scale))
	r.Op(amd64.VBROADCASTSS, r.scale, amd64.M(amd64.RAX, 0))
	if !r.p.Norm {
		r.Move(r.factor, r.scale)
	}
	r.arg(rX, unsafe.Offsetof(args.X))
	r.firstBias()
	r.arg(rW, unsafe.Offsetof(args.W))
	r.arg(rCos, unsafe.Offsetof(args.Cos))
	r.arg(rSin, unsafe.Offsetof(args.Sin))
	r.arg(rOut, unsafe.Offsetof(args.Out))
	r.arg(rHeads, unsafe.Offsetof(args.Heads))
	r.arg(rHead, unsafe.Offsetof(args.HeadStride))
	r.arg(rElem, unsafe.Offsetof(args.ElemStride))
	r.Lea(rElem3, amd64.MX(rElem, rElem, 2, 0))
}

// firstBias points rBias at the bias of the first head, or at zeros.
func (r *rope) firstBias() {
	var args kernel.RopeArgs
	given := r.NewLabel()
	r.arg(rBias, unsafe.Offsetof(args.Bias))
	r.Test(rBias, rBias)
	r.Jcc(amd64.CcNE, given)
	r.Lea(rBias, r.words(make([]uint32, r.p.Dim)...))
	r.Bind(given)
}

// nextBias moves rBias to the next head; the zeros stay.
func (r *rope) nextBias() {
	var args kernel.RopeArgs
	r.arg(amd64.RAX, unsafe.Offsetof(args.Bias))
	none := r.NewLabel()
	r.Test(amd64.RAX, amd64.RAX)
	r.Jcc(amd64.CcE, none)
	r.AddI(rBias, 4*r.p.Dim)
	r.Bind(none)
}

// heads is the loop over heads.
func (r *rope) heads() {
	top := r.Here()
	r.head()
	r.AddI(rX, 4*r.p.Dim)
	r.nextBias()
	r.Add(rOut, rHead)
	r.Dec(rHeads)
	r.Jcc(amd64.CcNE, top)
}

// head is one head.
func (r *rope) head() {
	if r.p.Norm {
		r.norm()
	}
	if r.strided {
		r.Mov(rCursor, rOut)
		r.MovI(rSecond, int64(r.p.Rot/2))
		r.Imul(rSecond, rElem)
		r.Add(rSecond, rOut)
	}
	r.rotate()
	r.rest()
}

// norm sets factor to scale/rms of the head.
func (r *rope) norm() {
	acc, x := r.Vecs(4), r.Vec()
	for _, a := range acc {
		r.Zero(a)
	}
	i := 0
	r.runs(r.p.Dim, func(at int, p part) {
		r.biased(x, at, p)
		r.Op(amd64.VFMADD231PS, acc[i%4], x, x)
		i++
	})
	r.Op(amd64.VADDPS, acc[0], acc[0], acc[1])
	r.Op(amd64.VADDPS, acc[2], acc[2], acc[3])
	r.Op(amd64.VADDPS, acc[0], acc[0], acc[2])
	var args kernel.RopeArgs
	r.arg(amd64.RAX, unsafe.Offsetof(args.Eps))
	r.Op(amd64.VMULPS, r.factor, r.inverseRMS(acc[0], r.p.Dim, x), r.scale)
	r.Release(acc...)
	r.Release(x)
}

// biased is the run of the head's elements at an offset, with the bias.
func (r *rope) biased(d amd64.Vec, at int, p part) {
	r.loadPart(d, amd64.M(rX, 4*at), p)
	r.opPart(amd64.VADDPS, d, d, amd64.M(rBias, 4*at), p)
}

// load is that run normed and scaled.
func (r *rope) load(d amd64.Vec, at int, p part) {
	r.biased(d, at, p)
	r.Op(amd64.VMULPS, d, d, r.factor)
	if r.p.Norm {
		r.opPart(amd64.VMULPS, d, d, amd64.M(rW, 4*at), p)
	}
}

// rotate turns the pairs (i, i+Rot/2) and stores them.
func (r *rope) rotate() {
	v := r.Vecs(6)
	a, b, cos, sin, x, y := v[0], v[1], v[2], v[3], v[4], v[5]
	half := r.p.Rot / 2
	r.runs(half, func(at int, p part) {
		r.load(a, at, p)
		r.load(b, at+half, p)
		r.loadPart(cos, amd64.M(rCos, 4*at), p)
		r.loadPart(sin, amd64.M(rSin, 4*at), p)
		r.Op(amd64.VMULPS, x, a, cos)
		r.Op(amd64.VFNMADD231PS, x, b, sin)
		r.Op(amd64.VMULPS, y, b, cos)
		r.Op(amd64.VFMADD231PS, y, a, sin)
		r.store(x, at, p, rCursor)
		r.store(y, at+half, p, rSecond)
	})
	r.Release(v...)
}

// rest stores the elements that are not rotated; after rotate rSecond points at the first.
func (r *rope) rest() {
	x := r.Vec()
	r.runs(r.p.Dim-r.p.Rot, func(at int, p part) {
		r.load(x, r.p.Rot+at, p)
		r.store(x, r.p.Rot+at, p, rSecond)
	})
	r.Release(x)
}
