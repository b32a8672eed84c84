package x86

import (
	"math/bits"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// generate emits an entry: for all panels, for all groups, for all passes over columns, for all k.
func (l *linear) generate() ([]byte, error) {
	var args kernel.LinearArgs
	l.arg(regW, unsafe.Offsetof(args.W))
	l.arg(regS, unsafe.Offsetof(args.S))
	l.arg(regOut, unsafe.Offsetof(args.Out))
	l.arg(regLDC, unsafe.Offsetof(args.LDC))
	if l.imem {
		l.arg(regTmp, unsafe.Offsetof(args.Tmp))
	}
	if l.mr > 3 {
		l.Lea(regLDC3, amd64.MX(regLDC, regLDC, 2, 0))
	}
	l.Align(32)
	panel := l.Here()
	l.arg(regA, unsafe.Offsetof(args.A))
	l.AddI(regA, actAhead)
	l.arg(regSum, unsafe.Offsetof(args.ASum))
	l.arg(regScale, unsafe.Offsetof(args.AScale))
	l.rowBases()
	l.clearTile()
	if l.grouped() {
		l.MovI(regGroups, int64(l.p.K/l.span()))
		l.Align(32)
		group := l.Here()
		l.startSuper()
		l.runPasses()
		l.AddI(regS, l.scaleStep())
		l.AddI(regSum, 4*l.mr)
		l.AddI(regScale, 4*l.mr)
		l.Dec(regGroups)
		l.Jcc(amd64.CcNE, group)
	} else {
		l.runPasses()
	}
	l.storeTile()
	if l.streams > 1 {
		l.AddI(regW, (l.streams-1)*l.panelBytes())
		l.AddI(regS, (l.streams-1)*l.scalePanel())
	}
	width := 4 * l.p.Layout.NR()
	l.AddI(regOut, l.streams*width)
	l.arg(amd64.RAX, unsafe.Offsetof(args.Panels)) // the end of the row: Out + Panels*width
	l.Shl(amd64.RAX, bits.TrailingZeros(uint(width)))
	l.AddM(amd64.RAX, amd64.M(amd64.RDI, int(unsafe.Offsetof(args.Out))))
	l.Cmp(regOut, amd64.RAX)
	l.Jcc(amd64.CcNE, panel)
	l.Ret()
	return l.Code()
}

// runPasses runs one group, some vectors at a time; each pass but the last goes back to its start.
func (l *linear) runPasses() {
	n := l.passes()
	for pass := range n {
		l.startGroup(pass)
		l.inner(pass)
		if l.grouped() {
			l.endGroup(pass)
		} else {
			l.storePass(pass)
		}
		if pass < n-1 {
			l.SubI(regW, l.span()/l.c.runK()*l.runBytes())
			l.SubI(regA, l.span()*l.p.Arith.Bytes()*l.mr)
		}
	}
}

// inner accumulates the products of one span of k.
func (l *linear) inner(pass int) {
	iters := l.span() / l.ku
	var top amd64.Label
	if iters > 1 {
		l.MovI(regInner, int64(iters))
		l.Align(32)
		top = l.Here()
	}
	for r := range l.ku / l.c.runK() {
		if l.rows {
			l.runByRows(r, pass)
		} else {
			l.runByWeights(r, pass)
		}
	}
	l.AddI(regW, l.ku/l.c.runK()*l.runBytes())
	l.AddI(regA, l.ku*l.p.Arith.Bytes()*l.mr)
	if iters > 1 {
		l.Dec(regInner)
		l.Jcc(amd64.CcNE, top)
	}
}

// runByWeights takes one vector of weights after the other; the run's activations are operands in
// memory, or in registers where there is no embedded broadcast.
func (l *linear) runByWeights(r, pass int) {
	if !l.isa.EVEX {
		for i, b := range l.b {
			l.broadcast(b, l.activation(r, i/l.mr, i%l.mr))
		}
	}
	for i := range l.width() {
		src := l.source(l.w, r, pass, i)
		l.prefetch(r, pass, i)
		for p := range l.c.planes {
			v := l.expand(0, src, p)
			for m := range l.mr {
				var act any = l.activation(r, p, m).Bcast()
				if !l.isa.EVEX {
					act = l.b[p*l.mr+m]
				}
				l.madd(m, i, r, p, v, act)
			}
		}
	}
}

// runByRows keeps the weights of a plane in registers and takes one row after the other.
func (l *linear) runByRows(r, pass int) {
	for p := range l.c.planes {
		for i := range l.width() {
			l.expand(i, l.source(nil, r, pass, i), p)
			if p == 0 {
				l.prefetch(r, pass, i)
			}
		}
		for m := range l.mr {
			l.broadcast(l.b[0], l.activation(r, p, m))
			for i := range l.width() {
				l.madd(m, i, r, p, l.v[i], l.b[0])
			}
		}
	}
}

// expand makes operand i of plane p.
func (l *linear) expand(i int, src any, p int) amd64.Vec {
	v := l.v[i]
	l.c.expand(l, v, src, p)
	if l.dot() == dotByte {
		l.Xor(v, v, l.sign)
		l.Op(amd64.VPABSB, l.wabs[i], v)
	}
	return v
}

// madd adds weights v (vector i, run r, plane p) times activations of row m.
func (l *linear) madd(m, i, r, p int, v amd64.Vec, act any) {
	at := m*l.width() + i
	acc := l.acc[at]
	if l.inPlace(p) {
		acc = l.hiAcc[at]
	}
	switch l.dot() {
	case dotFMA:
		l.Op(amd64.VFMADD231PS, acc, v, act)
	case dotVNNI:
		in := amd64.VPDPBUSD
		if l.p.Arith == kernel.A16 {
			in = amd64.VPDPWSSD
		}
		l.Op(in, acc, v, act)
	case dotWord:
		l.Op(amd64.VPMADDWD, l.t, v, act)
		l.Op(amd64.VPADDD, acc, acc, l.t)
	case dotNibble:
		sum, k := l.t, r*l.c.runK()+4*p
		if l.sums16() || l.narrow() {
			sum = l.acc16[at]
		}
		if k%l.nibbleK() == 0 { // begins a sum
			l.Op(amd64.VPMADDUBSW, sum, v, act)
		} else {
			l.Op(amd64.VPMADDUBSW, l.t, v, act)
			l.Op(amd64.VPADDW, sum, sum, l.t)
		}
		if l.wide() && (k+4)%l.nibbleK() == 0 {
			l.Op(amd64.VPMADDWD, sum, sum, l.ones)
			l.addWide(at, k+4, sum)
		}
	case dotByte:
		l.Op(amd64.VPSIGNB, l.t, act, v)
		l.Op(amd64.VPMADDUBSW, l.t, l.wabs[i%len(l.wabs)], l.t)
		l.Op(amd64.VPMADDWD, l.t, l.t, l.ones)
		l.Op(amd64.VPADDD, acc, acc, l.t)
	}
}

// addWide adds widened sums to accumulator at; k is where they end within the iteration. In scratch memory
// the first sums of a group meet nothing, and the last stay in their register, where one iteration is a
// whole group.
func (l *linear) addWide(at, k int, sum amd64.Vec) {
	if !l.imem {
		l.Op(amd64.VPADDD, l.acc[at], l.acc[at], sum)
		return
	}
	if !l.unrolled() || k > l.nibbleK() || l.sumCoef() != 0 {
		l.Op(amd64.VPADDD, sum, sum, l.scratch(at))
	}
	if !l.unrolled() || k < l.ku {
		l.StoreV(l.scratch(at), sum)
	}
}

// scratch is where accumulator at is kept.
func (l *linear) scratch(at int) amd64.Mem { return amd64.M(regTmp, at*l.isa.Bytes()) }

// weights locates vector i of run r of the iteration, activation the dword of plane p and row m.
func (l *linear) weights(r, pass, i int) amd64.Mem {
	s, c, h := l.place(pass, i)
	return amd64.M(regW, s*l.panelBytes()+r*l.runBytes()+c*64+h*l.isa.Bytes())
}

func (l *linear) activation(r, p, m int) amd64.Mem {
	start := r / l.c.period * l.c.period * l.c.planes
	return amd64.M(regA, ((start+l.c.step(r%l.c.period, p))*l.mr+m)*4-actAhead)
}

// actAhead is how far regA points ahead: displacements of one byte reach as far back as forward.
const actAhead = 128

// place is the stream, the column of the panel and the half of vector i of a pass.
func (l *linear) place(pass, i int) (stream, col, half int) {
	h, v := l.isa.Halves(), pass*l.vecs+i%l.vecs
	return i / l.vecs, v / h, v % h
}

func (l *linear) prefetch(r, pass, i int) {
	if _, _, half := l.place(pass, i); l.pf > 0 && half == 0 {
		for step := range l.c.steps() {
			l.Prefetch(l.hint, l.weights(r, pass, i).Add(l.pf+step*l.stepBytes()))
		}
	}
}

// broadcast fills v with one dword of memory.
func (l *linear) broadcast(v amd64.Vec, m amd64.Mem) {
	if l.p.Arith == kernel.F32 {
		l.Op(amd64.VBROADCASTSS, v, m)
		return
	}
	l.Op(amd64.VPBROADCASTD, v, m)
}
