package x86

import (
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// scores computes Q.K of all rows for the blocks of the step, to scratch.
func (a *attn) scores() {
	const keys, out, left = amd64.RSI, amd64.RDX, amd64.RCX
	for i, t := range a.tiles {
		fetch := i == 0 && a.prefetch != fetchNothing
		if fetch {
			a.Mov(aFetch, aV)
		}
		a.Mov(keys, aK)
		a.Lea(out, amd64.M(aTmp, t[0]*a.scoreRow()))
		a.Mov(left, aCount)
		single, done := a.NewLabel(), a.NewLabel()
		for _, blocks := range sizes(a.qblocks) {
			top := a.Here()
			a.CmpI(left, blocks)
			if blocks > 1 {
				a.Jcc(amd64.CcL, single)
			} else {
				a.Jcc(amd64.CcL, done)
			}
			a.scoreTile(t[0], t[1], blocks, fetch)
			a.AddI(keys, blocks*a.blockBytes())
			a.AddI(out, blocks*kernel.KVBlock*4)
			a.SubI(left, blocks)
			a.Jmp(top)
			if blocks > 1 {
				a.Bind(single)
			}
		}
		a.Bind(done)
	}
}

// sizes lists the tiles that cover any number of blocks: n at a time, then single ones.
func sizes(n int) []int {
	if n == 1 {
		return []int{1}
	}
	return []int{n, 1}
}

// scoreTile is one register tile: rows x blocks of scores, summed over the head dimension in
// qsplit interleaved sums. RSI points at the keys, RDX at the scores.
func (a *attn) scoreTile(first, rows, blocks int, fetch bool) {
	const q, k, count = amd64.RAX, amd64.RBX, amd64.R14
	h := a.ISA.Halves()
	cols, elem := blocks*h, a.p.Elem.Bytes()
	acc := a.matrix(a.qsplit*rows, cols)
	for _, row := range acc {
		for _, v := range row {
			a.Zero(v)
		}
	}
	var args kernel.AttnArgs
	a.arg(q, unsafe.Offsetof(args.Q))
	a.AddI(q, 4*first)
	a.Mov(k, amd64.RSI)
	const unroll = 4
	rowBytes := kernel.KVBlock * elem // keys of one dimension in a block
	a.times(count, a.p.Dim/unroll, func() {
		for u := range unroll {
			s := u % a.qsplit
			a.outer(acc[s*rows:][:rows], func(d amd64.Vec, c int) {
				at := c/h*a.blockBytes() + u*rowBytes + c%h*a.ISA.Lanes*elem
				a.loadElem(d, amd64.M(k, at), a.whole())
			}, func(r int) amd64.Mem { return amd64.M(q, 4*(u*a.p.M+r)) })
		}
		if fetch {
			for at := 0; at < blocks*unroll*rowBytes; at += 64 {
				a.Prefetch(2, amd64.M(aFetch, at))
			}
			a.AddI(aFetch, blocks*unroll*rowBytes)
		}
		a.AddI(k, unroll*rowBytes)
		a.AddI(q, unroll*4*a.p.M)
	})
	for s := 1; s < a.qsplit; s++ {
		for r := range rows {
			for c := range cols {
				a.Op(amd64.VADDPS, acc[r][c], acc[r][c], acc[s*rows+r][c])
			}
		}
	}
	for r := range rows {
		for c := range cols {
			a.StoreV(amd64.M(amd64.RDX, r*a.scoreRow()+c*a.ISA.Bytes()), acc[r][c])
		}
	}
	a.releaseMatrix(acc)
}
