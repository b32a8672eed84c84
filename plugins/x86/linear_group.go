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
)

// rowValues lists those that a tile needs.
func (t tile) rowValues() []rowValue {
	var out []rowValue
	if t.narrow() && t.sumCoef() != 0 {
		out = append(out, rowDebt)
	}
	if t.p.Format.Offset {
		out = append(out, rowSum)
	}
	if t.p.Arith != kernel.F32 {
		out = append(out, rowScale)
	}
	return out
}

// clearAcc starts the accumulators of a group: at sumCoef times the sum of the row's activations,
// so that a bias of the codes costs nothing later. Int16 sums need no start.
func (l *linear) clearAcc() {
	for _, v := range l.hiAcc {
		l.Zero(v)
	}
	if l.narrow() {
		return
	}
	for m := range l.mr {
		row := l.acc[m*l.width():][:l.width()]
		if l.sumCoef() != 0 {
			l.debt(row[0], m)
		} else {
			l.Zero(row[0])
		}
		for _, v := range row[1:] {
			if l.sumCoef() != 0 {
				l.Move(v, row[0])
			} else {
				l.Zero(v)
			}
		}
	}
}

// debt computes sumCoef times the sum of row m.
func (l *linear) debt(v amd64.Vec, m int) {
	mul := amd64.VPMULLD
	if l.p.Arith == kernel.F32 {
		mul = amd64.VMULPS
	}
	l.broadcast(v, amd64.M(regSum, 4*m))
	l.Op(mul, v, v, l.coef)
}

// endGroup adds scale*(activation scale)*(sum of products) and offset*(activation scale)*(sum of
// activations) to the float accumulators. Scales outside and rows inside needs the fewest registers;
// where there are enough, values of a row are loaded once for all vectors.
func (l *linear) endGroup(pass int) {
	per := l.scaleKinds()
	kinds, n := l.rowValues(), l.width()
	if !l.isa.EVEX && len(l.work) > per*n && len(l.work) >= per*n+len(kinds) {
		regs := l.work[per*n:]
		for i := range n {
			l.loadScale(l.work[per*i:][:per], regs[0], pass, i)
		}
		for m := range l.mr {
			for k, kind := range kinds {
				l.loadRow(regs[k], kind, m)
			}
			for i := range n {
				l.apply(m, pass, i, l.work[per*i:][:per], func(kind rowValue) any {
					for k := range kinds {
						if kinds[k] == kind {
							return regs[k]
						}
					}
					return nil
				})
			}
		}
		return
	}
	r := l.work[per]
	for i := range n {
		l.loadScale(l.work[:per], r, pass, i)
		for m := range l.mr {
			l.apply(m, pass, i, l.work[:per], func(kind rowValue) any { return l.rowOperand(r, kind, m) })
		}
	}
}

// loadRow puts a value of row m in every lane of r; rowOperand prefers an embedded broadcast.
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
	if l.isa.EVEX {
		switch {
		case kind == rowScale && !(l.fmem && l.p.Format.Offset):
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

// apply ends the group of row m, vector i; scale holds the scale and the offset.
func (l *linear) apply(m, pass, i int, scale []amd64.Vec, row func(rowValue) any) {
	x := l.acc[m*l.width()+i]
	if l.narrow() {
		l.Op(amd64.VPMADDWD, x, x, l.ones)
		if l.sumCoef() != 0 {
			l.Op(amd64.VPADDD, x, x, row(rowDebt))
		}
	}
	if l.hi {
		h := l.hiAcc[m*l.width()+i]
		l.Op(amd64.VPSRAD, h, h, 4)
		l.Op(amd64.VPADDD, x, x, h)
	}
	integer := l.p.Arith != kernel.F32
	if integer {
		l.Op(amd64.VCVTDQ2PS, x, x)
	}
	switch {
	case len(scale) == 1 && integer:
		l.Op(amd64.VMULPS, x, x, row(rowScale))
		l.accumulate(m, pass, i, x, scale[0])
	case len(scale) == 1:
		l.accumulate(m, pass, i, x, scale[0])
	default:
		l.Op(amd64.VMULPS, x, x, scale[0])
		l.Op(amd64.VFMADD231PS, x, scale[1], row(rowSum))
		var f any
		if integer {
			f = row(rowScale)
		}
		l.accumulate(m, pass, i, x, f)
	}
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
