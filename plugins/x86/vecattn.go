package x86

import (
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

func init() {
	generators[kernel.OpAttn] = generator{space: attnSpace, emit: emitAttn}
}

// General registers of OpAttn; RAX, RBX, RCX, RDX, RSI and R14 are free within a phase.
const (
	aArgs  = amd64.RDI
	aK     = amd64.R8  // first block of the step
	aV     = amd64.R9  // first position of the step
	aEnd   = amd64.R10 // first position that no row sees
	aTmp   = amd64.R11 // scores [M][step*16], then the rows' corrections [M]
	aPos   = amd64.R12 // first position of the step
	aCount = amd64.R13 // blocks of the step
	aFetch = amd64.R15 // what is fetched next
)

// attn emits one OpAttn. A call goes through its blocks in steps of up to `step` blocks, each in
// three phases: scores of all rows to scratch; the online softmax, row by row in place; values.
type attn struct {
	*Emitter
	p        kernel.Problem
	tiles    [][2]int // first row and rows of each row tile
	qblocks  int
	qsplit   int
	vcols    int
	step     int
	prefetch int
	keyLines int // lines of keys that an iteration over values fetches
}

// Values of the parameter prefetch.
const (
	fetchNothing = iota
	fetchValues
	fetchBoth
)

func emitAttn(isa ISA, p kernel.Problem, c kernel.Config) (Code, error) {
	if err := checkAttn(p); err != nil {
		return Code{}, err
	}
	a := &attn{Emitter: NewEmitter(isa), p: p, tiles: split(p.M, int(c["rows"])), qblocks: int(c["qblocks"]),
		qsplit: int(c["qsplit"]), vcols: int(c["vcols"]), step: int(c["step"]), prefetch: int(c["prefetch"])}
	a.begin()
	done, full := a.NewLabel(), a.NewLabel()
	top := a.Here()
	a.Mov(aCount, aEnd)
	a.Sub(aCount, aPos)
	a.CmpI(aCount, 1)
	a.Jcc(amd64.CcL, done)
	a.AddI(aCount, kernel.KVBlock-1)
	a.Shr(aCount, 4)
	a.CmpI(aCount, a.step)
	a.Jcc(amd64.CcLE, full)
	a.MovI(aCount, int64(a.step))
	a.Bind(full)
	a.scores()
	a.softmax()
	a.values()
	a.ImulI(amd64.RAX, aCount, a.blockBytes())
	a.Add(aK, amd64.RAX)
	a.Add(aV, amd64.RAX)
	a.Shl(aCount, 4)
	a.Add(aPos, aCount)
	a.Jmp(top)
	a.Bind(done)
	a.Ret()
	return finish(a.Emitter, kernel.Exec{ScratchBytes: (a.corrections() + 4*p.M + 63) &^ 63})
}

// split cuts m rows into tiles of nearly equal size, at most r each.
func split(m, r int) [][2]int {
	n := (m + r - 1) / r
	var out [][2]int
	for i := range n {
		first := i * m / n
		out = append(out, [2]int{first, (i+1)*m/n - first})
	}
	return out
}

// blockBytes is the size of the keys, and of the values, of 16 positions.
func (a *attn) blockBytes() int { return kernel.KVBlock * a.p.Dim * a.p.Elem.Bytes() }

// scoreRow is the size of a row of scores; corrections is where the rows' corrections lie.
func (a *attn) scoreRow() int    { return a.step * kernel.KVBlock * 4 }
func (a *attn) corrections() int { return a.p.M * a.scoreRow() }

// begin loads the arguments, ends the positions at the largest Hi (what lies beyond may be
// anything, NaN too) and starts them at the block of the smallest Lo.
func (a *attn) begin() {
	const lo, hi = amd64.RSI, amd64.RDX
	var args kernel.AttnArgs
	a.arg(aK, unsafe.Offsetof(args.K))
	a.arg(aV, unsafe.Offsetof(args.V))
	a.arg(aTmp, unsafe.Offsetof(args.Tmp))
	a.arg(lo, unsafe.Offsetof(args.Lo))
	a.arg(hi, unsafe.Offsetof(args.Hi))
	a.MovI(aPos, math.MaxInt32)
	a.MovI(aEnd, 0)
	a.MovI(amd64.RBX, 0)
	top := a.Here()
	a.LoadS32(amd64.RAX, amd64.MX(lo, amd64.RBX, 4, 0))
	a.Cmp(amd64.RAX, aPos)
	a.Cmov(amd64.CcL, aPos, amd64.RAX)
	a.LoadS32(amd64.RAX, amd64.MX(hi, amd64.RBX, 4, 0))
	a.Cmp(amd64.RAX, aEnd)
	a.Cmov(amd64.CcG, aEnd, amd64.RAX)
	a.Inc(amd64.RBX)
	a.CmpI(amd64.RBX, a.p.M)
	a.Jcc(amd64.CcL, top)

	a.arg(amd64.RAX, unsafe.Offsetof(args.Blocks))
	a.Shl(amd64.RAX, 4)
	a.Cmp(amd64.RAX, aEnd)
	a.Cmov(amd64.CcL, aEnd, amd64.RAX)
	a.MovI(amd64.RBX, 0)
	a.Cmp(aPos, amd64.RBX)
	a.Cmov(amd64.CcL, aPos, amd64.RBX)
	a.AndI(aPos, -kernel.KVBlock)
	a.ImulI(amd64.RAX, aPos, a.p.Dim*a.p.Elem.Bytes())
	a.Add(aK, amd64.RAX)
	a.Add(aV, amd64.RAX)
}

// loadElem loads a run of cache elements as floats.
func (a *attn) loadElem(d amd64.Vec, m amd64.Mem, p part) {
	if a.p.Elem == kernel.ElemF32 {
		a.loadPart(d, m, p)
		return
	}
	var src any = m
	if p.n < a.ISA.Lanes { // with masks only: the dimension is a multiple of 8
		a.Op(amd64.VMOVDQU16, Half(d), m, p.k, amd64.ZeroMask)
		src = Half(d)
	}
	if a.p.Elem == kernel.ElemF16 {
		a.Op(amd64.VCVTPH2PS, d, src)
		return
	}
	a.Op(amd64.VPMOVZXWD, d, src)
	a.Op(amd64.VPSLLD, d, d, 16)
}

// outer adds rows x columns products to acc[row][col]. col loads column c; row is where the factor
// of row r lies. Whichever of the two sides is smaller is held in registers.
func (a *attn) outer(acc [][]amd64.Vec, col func(d amd64.Vec, c int), row func(r int) amd64.Mem) {
	rows, cols := len(acc), len(acc[0])
	one := a.Vec()
	defer a.Release(one)
	if cols == 1 && a.ISA.EVEX {
		col(one, 0)
		for r := range rows {
			a.Op(amd64.VFMADD231PS, acc[r][0], one, row(r).Bcast())
		}
		return
	}
	held := a.Vecs(min(rows, cols))
	defer a.Release(held...)
	if cols <= rows {
		for c := range cols {
			col(held[c], c)
		}
		for r := range rows {
			a.Op(amd64.VBROADCASTSS, one, row(r))
			for c := range cols {
				a.Op(amd64.VFMADD231PS, acc[r][c], held[c], one)
			}
		}
		return
	}
	for r := range rows {
		a.Op(amd64.VBROADCASTSS, held[r], row(r))
	}
	for c := range cols {
		col(one, c)
		for r := range rows {
			a.Op(amd64.VFMADD231PS, acc[r][c], held[r], one)
		}
	}
}

// matrix takes rows x cols registers.
func (e *Emitter) matrix(rows, cols int) [][]amd64.Vec {
	m := make([][]amd64.Vec, rows)
	for r := range m {
		m[r] = e.Vecs(cols)
	}
	return m
}

func (e *Emitter) releaseMatrix(m [][]amd64.Vec) {
	for _, row := range m {
		e.Release(row...)
	}
}
