package x86

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// rowValue is something of a row and group that the end of a group needs in every lane.
type rowValue int

const (
	rowDebt  rowValue = iota // sumCoef times the sum of the activations, int32
	rowSum                   // the sum of the activations, f32
	rowScale                 // the scale of the activations
	rowNothing
)

// clearAcc starts the accumulators of a group: at sumCoef times the sum of the row's activations,
// so that a bias of the codes costs nothing later. Int16 sums need no start.
func (l *linear) clearAcc() {
	for _, v := range l.hiAcc {
		l.Zero(v)
	}
	if l.narrow() {
		return
	}
	if l.imem {
		l.clearScratch()
		return
	}
	for m := range l.mr {
		row := l.acc[m*l.width():][:l.width()]
		switch {
		case l.sumCoef() != 0:
			l.debt(row[0], m)
			for _, v := range row[1:] {
				l.Move(v, row[0])
			}
		case l.asFloats():
			for _, v := range row {
				l.fill(v, floatZero) // a load: arithmetic ports stay free
			}
		default:
			for _, v := range row {
				l.Zero(v)
			}
		}
	}
}

// clearScratch does so for accumulators in scratch memory.
func (l *linear) clearScratch() {
	v := l.work[0]
	switch {
	case l.sumCoef() == 0 && l.unrolled():
		return
	case l.sumCoef() == 0:
		l.Zero(v)
	}
	for m := range l.mr {
		if l.sumCoef() != 0 {
			l.debt(v, m)
		}
		for i := range l.width() {
			l.StoreV(l.scratch(m*l.width()+i), v)
		}
	}
}

// debt computes sumCoef times the sum of row m. On top of floatZero that is one instruction: the sum of
// at most 128 codes fits a word, and the word above it meets a zero.
func (l *linear) debt(v amd64.Vec, m int) {
	sum := amd64.M(regSum, 4*m)
	if l.asFloats() {
		l.fill(v, floatZero)
		if coef, ok := l.coef.(amd64.Vec); ok {
			l.Op(amd64.VPDPWSSD, v, coef, sum.Bcast())
			return
		}
		l.broadcast(l.work[0], sum)
		l.Op(amd64.VPDPWSSD, v, l.work[0], l.coef)
		return
	}
	mul := amd64.VPMULLD
	if l.p.Arith == kernel.F32 {
		mul = amd64.VMULPS
	}
	l.broadcast(v, sum)
	l.Op(mul, v, v, l.coef)
}

// chunk is how many vectors have registers for their scales at the end of a group.
func (l *linear) chunk() int { return min(l.width(), (len(l.work)-1)/l.scaleRegs()) }

// early is how many of them have those registers from the start of the group on.
func (l *linear) early() int { return min(l.chunk(), l.idle/l.scaleRegs()) }

// groupScales is where the scales of vector i of a chunk are, and row where a value of a row is.
func (l *linear) groupScales(i int) []amd64.Vec { return l.work[l.scaleRegs()*i:][:l.scaleRegs()] }
func (l *linear) row() amd64.Vec                { return l.work[len(l.work)-1] }

// startGroup clears the accumulators and loads the scales that have registers: they take long.
func (l *linear) startGroup(pass int) {
	l.clearAcc()
	if !l.grouped() {
		return
	}
	for i := range l.early() {
		l.loadScale(l.groupScales(i), l.row(), pass, i)
	}
}

// endGroup adds scale*(activation scale)*(sum of products) and offset*(activation scale)*(sum of
// activations) to the float accumulators, a chunk at a time.
func (l *linear) endGroup(pass int) {
	if l.imem && !l.unrolled() {
		for at, v := range l.acc {
			l.LoadV(v, l.scratch(at))
		}
	}
	if l.inTurn() {
		l.endInTurn(pass)
		return
	}
	for first := 0; first < l.width(); first += l.chunk() {
		e := groupEnd{linear: l, pass: pass, first: first, n: min(l.chunk(), l.width()-first)}
		for i := range e.n {
			if first > 0 || i >= l.early() {
				l.loadScale(l.groupScales(i), l.row(), pass, first+i)
			}
		}
		e.widen()
		e.applyScale()
		e.applyRest()
		e.emit()
	}
}

// inTurn reports whether the end of a group has registers for the scales of all vectors, but not for
// their offsets beside them: row values are then loaded once, not for each chunk.
func (l *linear) inTurn() bool {
	return l.p.Format.Offset && !l.asFloats() && l.idle == 0 && l.chunk() < l.width() && l.width() < len(l.work)
}

// endInTurn applies all scales, then all offsets, from the same registers.
func (l *linear) endInTurn(pass int) {
	e := groupEnd{linear: l, pass: pass, n: l.width(), together: true}
	for kind, apply := range []func(){func() { e.widen(); e.applyScale() }, e.applyRest} {
		for i := range e.n {
			l.loadScaleKind(e.groupScales(i)[0], l.row(), pass, i, kind)
		}
		apply()
		e.emit()
	}
}

// groupEnd ends a group for n vectors from first on of all rows.
type groupEnd struct {
	*linear
	pass, first, n int
	together       bool // one register for each vector, which holds its scale or its offset
	steps          []func(m int)
}

// groupScales are the registers of vector i of the chunk.
func (e *groupEnd) groupScales(i int) []amd64.Vec {
	if e.together {
		return []amd64.Vec{e.work[i]}
	}
	return e.linear.groupScales(i)
}

// emit emits the steps, each a row behind the one before: what it reads is ready then, and the stores
// are spread.
func (e *groupEnd) emit() {
	for t := range e.mr + len(e.steps) - 1 {
		for k, step := range e.steps {
			if m := t - k; m >= 0 && m < e.mr {
				step(m)
			}
		}
	}
	e.steps = nil
}

// step adds a step that does f to every sum of a row; r is the value of the row.
func (e *groupEnd) step(kind rowValue, f func(m, i int, x amd64.Vec, s []amd64.Vec, r any)) {
	e.steps = append(e.steps, func(m int) {
		r := e.rowOperand(e.row(), kind, m)
		for i := range e.n {
			f(m, e.first+i, e.acc[m*e.width()+e.first+i], e.groupScales(i), r)
		}
	})
}

// widen makes sums of all parts of a group: int16 sums, and those of high nibbles left in place.
func (e *groupEnd) widen() {
	if e.narrow() {
		e.step(rowNothing, func(_, _ int, x amd64.Vec, _ []amd64.Vec, _ any) { e.Op(amd64.VPMADDWD, x, x, e.ones) })
		if e.sumCoef() != 0 {
			e.step(rowDebt, func(_, _ int, x amd64.Vec, _ []amd64.Vec, debt any) { e.Op(amd64.VPADDD, x, x, debt) })
		}
	}
	if e.hi {
		high := func(m, i int) amd64.Vec { return e.hiAcc[m*e.width()+i] }
		e.step(rowNothing, func(m, i int, _ amd64.Vec, _ []amd64.Vec, _ any) {
			e.Op(amd64.VPSRAD, high(m, i), high(m, i), 4)
		})
		e.step(rowNothing, func(m, i int, x amd64.Vec, _ []amd64.Vec, _ any) { e.Op(amd64.VPADDD, x, x, high(m, i)) })
	}
}

// applyScale scales the sums; without offset by the scale of the activations, or as floats.
func (e *groupEnd) applyScale() {
	integer, offset := e.p.Arith != kernel.F32, e.p.Format.Offset
	if e.asFloats() {
		e.step(rowNothing, func(_, _ int, x amd64.Vec, s []amd64.Vec, _ any) { e.Op(amd64.VFMADD213PS, x, s[0], s[len(s)-1]) })
		return
	}
	if integer {
		e.step(rowNothing, func(_, _ int, x amd64.Vec, _ []amd64.Vec, _ any) { e.Op(amd64.VCVTDQ2PS, x, x) })
	}
	switch {
	case offset:
		e.step(rowNothing, func(_, _ int, x amd64.Vec, s []amd64.Vec, _ any) { e.Op(amd64.VMULPS, x, x, s[0]) })
	case integer:
		e.step(rowScale, func(_, _ int, x amd64.Vec, _ []amd64.Vec, f any) { e.Op(amd64.VMULPS, x, x, f) })
	}
}

// applyRest adds offsets, and what is then to be scaled by the other scale to the float accumulators.
func (e *groupEnd) applyRest() {
	offset := e.p.Format.Offset
	last := rowNothing // what meets the accumulators: the activation scale, or without offset the scale
	if e.p.Arith != kernel.F32 && (offset || e.asFloats()) {
		last = rowScale
	}
	if offset {
		e.step(rowSum, func(_, _ int, x amd64.Vec, s []amd64.Vec, sum any) {
			m := s[0]
			if !e.together {
				m = s[1]
			}
			e.Op(amd64.VFMADD231PS, x, m, sum)
		})
	}
	e.step(last, func(m, i int, x amd64.Vec, s []amd64.Vec, f any) {
		if f == nil && !offset {
			f = s[0]
		}
		e.accumulate(m, e.pass, i, x, f)
	})
}

// scaleMeetsTile reports whether the activation scale is what multiplies a sum on its way to the output
// tile, whose operand is in memory.
func (l *linear) scaleMeetsTile() bool { return l.fmem && (l.p.Format.Offset || l.asFloats()) }

// loadRow puts a value of row m in every lane of r; rowOperand prefers an embedded broadcast and is nil for
// nothing.
func (l *linear) loadRow(r amd64.Vec, kind rowValue, m int) {
	switch kind {
	case rowDebt:
		l.debt(r, m)
	case rowScale:
		l.Op(amd64.VBROADCASTSS, r, amd64.M(regScale, 4*m))
	case rowSum:
		l.broadcast(r, amd64.M(regSum, 4*m))
		if l.p.Arith != kernel.F32 {
			l.Op(amd64.VCVTDQ2PS, r, r)
		}
	}
}

func (l *linear) rowOperand(r amd64.Vec, kind rowValue, m int) any {
	if kind == rowNothing {
		return nil
	}
	if l.isa.EVEX {
		switch {
		case kind == rowScale && !l.scaleMeetsTile():
			return amd64.M(regScale, 4*m).Bcast()
		case kind == rowSum && l.p.Arith == kernel.F32:
			return amd64.M(regSum, 4*m).Bcast()
		case kind == rowSum:
			l.Op(amd64.VCVTDQ2PS, r, amd64.M(regSum, 4*m).Bcast())
			return r
		}
	}
	l.loadRow(r, kind, m)
	return r
}

// accumulate adds x*f, or x if f is nil, to a float accumulator. x is lost.
func (l *linear) accumulate(m, pass, i int, x amd64.Vec, f any) {
	if l.fmem {
		out := l.out(m, pass, i)
		if f == nil {
			l.Op(amd64.VADDPS, x, x, out)
		} else {
			l.Op(amd64.VFMADD213PS, x, f, out)
		}
		l.StoreV(out, x)
		return
	}
	acc := l.facc[l.faccAt(m, pass, i)]
	if f == nil {
		l.Op(amd64.VADDPS, acc, acc, x)
	} else {
		l.Op(amd64.VFMADD231PS, acc, x, f)
	}
}

func (l *linear) faccAt(m, pass, i int) int {
	return (m*l.passes()+pass)*l.width() + i
}
