package x86

import (
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// values adds the weighted values of the step to Acc: each row tile in chunks of vcols vectors of
// the head dimension, then what is left of it.
func (a *attn) values() {
	const chunk, acc, count = amd64.RCX, amd64.RDX, amd64.R14
	var args kernel.AttnArgs
	width := a.vcols * a.ISA.Lanes
	for i, t := range a.tiles {
		a.fetchKeys(i == 0 && a.prefetch == fetchBoth)
		a.Mov(chunk, aV)
		a.arg(acc, unsafe.Offsetof(args.Acc))
		a.AddI(acc, 4*t[0]*a.p.Dim)
		whole := make([]part, a.vcols)
		for i := range whole {
			whole[i] = a.whole()
		}
		if n := a.p.Dim / width; n > 0 {
			a.times(count, n, func() {
				a.valueTile(t[0], t[1], whole)
				a.AddI(chunk, width*a.p.Elem.Bytes())
				a.AddI(acc, 4*width)
			})
		}
		if rest := a.p.Dim % width; rest > 0 {
			var cols []part
			for ; rest > a.ISA.Lanes; rest -= a.ISA.Lanes {
				cols = append(cols, a.whole())
			}
			last := a.partial(rest, 1)
			a.valueTile(t[0], t[1], append(cols, last))
			a.donePart(last)
		}
	}
}

// valueTile is one register tile: Acc[row][cols] = Acc*correction + sum over positions of
// weight[row] * V[position][cols]. RCX points at the chunk of V, RDX at that of Acc.
func (a *attn) valueTile(first, rows int, cols []part) {
	const weight, v, left = amd64.RSI, amd64.RBX, amd64.RAX
	acc := a.matrix(rows, len(cols))
	f := a.Vec()
	at := func(r, c int) amd64.Mem { return amd64.M(amd64.RDX, 4*(r*a.p.Dim+c*a.ISA.Lanes)) }
	for r := range rows {
		a.Op(amd64.VBROADCASTSS, f, amd64.M(aTmp, a.corrections()+4*(first+r)))
		for c, p := range cols {
			a.loadPart(acc[r][c], at(r, c), p)
			a.Op(amd64.VMULPS, acc[r][c], acc[r][c], f)
		}
	}
	a.Release(f)
	a.positions(left, weight)
	a.Lea(weight, amd64.M(aTmp, first*a.scoreRow()))
	a.Mov(v, amd64.RCX)
	elem := a.p.Elem.Bytes()
	step := func(n int) {
		for u := range n {
			a.outer(acc, func(d amd64.Vec, c int) {
				a.loadElem(d, amd64.M(v, (u*a.p.Dim+c*a.ISA.Lanes)*elem), cols[c])
			}, func(r int) amd64.Mem { return amd64.M(weight, r*a.scoreRow()+4*u) })
		}
		a.AddI(v, n*a.p.Dim*elem)
		a.AddI(weight, 4*n)
		a.SubI(left, n)
	}
	single, done := a.NewLabel(), a.NewLabel()
	top := a.Here()
	a.CmpI(left, valueUnroll)
	a.Jcc(amd64.CcL, single)
	for i := range a.keyLines {
		a.Prefetch(2, amd64.M(aFetch, 64*i))
	}
	if a.keyLines > 0 {
		a.AddI(aFetch, 64*a.keyLines)
	}
	step(valueUnroll)
	a.Jmp(top)
	a.Bind(single)
	a.CmpI(left, 1)
	a.Jcc(amd64.CcL, done)
	step(1)
	a.Jmp(single)
	a.Bind(done)
	for r := range rows {
		for c, p := range cols {
			a.storePart(at(r, c), acc[r][c], p)
		}
	}
	a.releaseMatrix(acc)
}

// valueUnroll is the number of positions of an iteration.
const valueUnroll = 4

// fetchKeys makes the value tiles that follow fetch the keys of the next step, their share in every
// iteration, or stop it. What is fetched behind the last step is lost.
func (a *attn) fetchKeys(on bool) {
	a.keyLines = 0
	if !on {
		return
	}
	width := a.vcols * a.ISA.Lanes
	chunks := (a.p.Dim + width - 1) / width
	a.keyLines = (valueUnroll*a.p.Dim*a.p.Elem.Bytes()/64 + chunks - 1) / chunks
	a.ImulI(aFetch, aCount, a.blockBytes())
	a.Add(aFetch, aK)
}

// positions sets d to the number of positions of the step that some row sees; t is a temporary.
func (a *attn) positions(d, t amd64.Reg) {
	a.Mov(d, aEnd)
	a.Sub(d, aPos)
	a.Mov(t, aCount)
	a.Shl(t, 4)
	a.Cmp(d, t)
	a.Cmov(amd64.CcG, d, t)
}
