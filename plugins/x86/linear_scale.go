package x86

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// super reports whether scales have two levels and are applied in the kernel.
func (t tile) super() bool { return t.grouped() && t.p.Format.Super != kernel.SuperNone }

// scaleKinds is 2 if a group has an offset beside its scale, else 1.
func (t tile) scaleKinds() int {
	if t.p.Format.Offset {
		return 2
	}
	return 1
}

// scaleStep is the size of a panel's scales of one group; super-scales lie apart, before the first
// group of each 256 k.
func (t tile) scaleStep() int {
	if t.p.Format.Super != kernel.SuperNone {
		return t.scaleKinds() * t.p.Layout.NR()
	}
	return t.p.Layout.ScaleBytes(t.p.Format, t.p.Format.Group)
}

// startSuper, at the first group of a super-group, passes over its super-scales: regSuper points to
// them from there on, and they are loaded if they have registers. It may use regInner.
func (l *linear) startSuper() {
	if l.p.Format.Super == kernel.SuperNone {
		return
	}
	l.Mov(regInner, regGroups)
	l.AndI(regInner, kernel.SuperGroup/l.p.Format.Group-1)
	within := l.NewLabel()
	l.Jcc(amd64.CcNE, within)
	l.Mov(regSuper, regS)
	l.AddI(regS, l.p.Layout.SubAt(l.p.Format, 0, 0))
	for at, v := range l.supers {
		kind, i := at%l.scaleKinds(), at/l.scaleKinds()
		l.widenHalves(v, l.superScale(i/l.width(), i%l.width(), kind))
	}
	l.Bind(within)
}

// superScale locates the 16-bit scale (kind 0) or offset (1) of vector i of a pass.
func (l *linear) superScale(pass, i, kind int) amd64.Mem {
	s, c, h := l.place(pass, i)
	base := regS
	if l.p.Format.Super != kernel.SuperNone {
		base = regSuper
	}
	return amd64.M(base, s*l.scalePanel()+c*32+h*16+kind*2*l.p.Layout.NR())
}

// scaleRegs is the number of registers that loadScale fills.
func (t tile) scaleRegs() int {
	if t.asFloats() {
		return t.scaleKinds() + 1
	}
	return t.scaleKinds()
}

// loadScale loads the scale of vector i, the offset if there is one, and if sums are read as floats what
// takes the scale of floatZero off again. It may use tmp.
func (l *linear) loadScale(v []amd64.Vec, tmp amd64.Vec, pass, i int) {
	if l.asFloats() {
		defer l.Op(amd64.VMULPS, v[len(v)-1], v[0], l.kf(-math.Float32frombits(floatZero)))
		v = v[:len(v)-1]
	}
	for kind, d := range v {
		l.loadScaleKind(d, tmp, pass, i, kind)
	}
}

// loadScaleKind loads the scale (kind 0) or the offset (1) of vector i. It may use tmp.
func (l *linear) loadScaleKind(d, tmp amd64.Vec, pass, i, kind int) {
	from := l.superScale(pass, i, kind)
	if l.p.Format.Super == kernel.SuperNone {
		l.widenHalves(d, from)
		return
	}
	s, c, h := l.place(pass, i)
	in := amd64.VPMOVZXBD
	if l.p.Format.Super == kernel.SuperQ6K {
		in = amd64.VPMOVSXBD
	}
	l.Op(in, d, amd64.M(regS, s*l.scalePanel()+c*16+h*8+kind*l.p.Layout.NR()))
	l.Op(amd64.VCVTDQ2PS, d, d)
	if l.supers != nil {
		tmp = l.supers[(pass*l.width()+i)*l.scaleKinds()+kind]
	} else {
		l.widenHalves(tmp, from)
	}
	l.Op(amd64.VMULPS, d, d, tmp)
}

// widenHalves loads 16-bit floats of the format's scale type.
func (l *linear) widenHalves(d amd64.Vec, m amd64.Mem) {
	if l.p.Format.Scale == kernel.ScaleF16 {
		l.Op(amd64.VCVTPH2PS, d, m)
		return
	}
	l.Op(amd64.VPMOVZXWD, d, m)
	l.Op(amd64.VPSLLD, d, d, 16)
}
