package x86

import "github.com/tilewright/tilewright/kernel/asm/amd64"

// rowBases sets the addresses from which out reaches rows 5 to 14.
func (l *linear) rowBases() {
	if l.mr > 5 {
		l.Lea(regOut5, amd64.MX(regOut, regLDC, 4, 0))
		l.Add(regOut5, regLDC)
	}
	if l.mr > 10 {
		l.Lea(regOut10, amd64.MX(regOut5, regLDC, 4, 0))
		l.Add(regOut10, regLDC)
	}
}

// out locates vector i of a pass in row m (at most 15) of the output tile. It may use regInner.
func (l *linear) out(m, pass, i int) amd64.Mem {
	s, c, h := l.place(pass, i)
	at := (s*l.p.Layout.Cols+c)*64 + h*l.isa.Bytes()
	base := [...]amd64.Reg{regOut, regOut5, regOut10, regInner}[m/5]
	if base == regInner {
		l.Lea(regInner, amd64.MX(regOut10, regLDC, 4, 0))
		l.Add(regInner, regLDC)
	}
	switch m % 5 {
	case 0:
		return amd64.M(base, at)
	case 3:
		return amd64.MX(base, regLDC3, 1, at)
	}
	return amd64.MX(base, regLDC, m%5, at)
}

// tileDo visits every vector of the output tile.
func (l *linear) tileDo(f func(m, pass, i int)) {
	for m := range l.mr {
		for pass := range l.passes() {
			for i := range l.width() {
				f(m, pass, i)
			}
		}
	}
}

// clearTile clears the float accumulators, in registers or in the output tile.
func (l *linear) clearTile() {
	switch {
	case !l.grouped():
	case l.fmem:
		l.Zero(l.work[0])
		l.tileDo(func(m, pass, i int) { l.StoreV(l.out(m, pass, i), l.work[0]) })
	default:
		for _, v := range l.facc {
			l.Zero(v)
		}
	}
}

// storeTile writes float accumulators that are in registers, storePass those of floats.
func (l *linear) storeTile() {
	if l.grouped() && !l.fmem {
		l.tileDo(func(m, pass, i int) { l.StoreV(l.out(m, pass, i), l.facc[l.faccAt(m, pass, i)]) })
	}
}

func (l *linear) storePass(pass int) {
	for at, v := range l.acc {
		l.StoreV(l.out(at/l.width(), pass, at%l.width()), v)
	}
}
