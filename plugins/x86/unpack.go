package x86

import (
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// unpacks reports whether panels of a problem differ from its codes: 8-bit codes in A8 and f32
// weights are read as they lie.
func unpacks(p kernel.Problem) bool {
	return p.Format.Bits < 8*p.Arith.Bytes()
}

// unpacker emits the entry "unpack": every run becomes its planes, in the order of activation steps;
// in F32 they are dequantised too, w = s*(q-Bias) + m.
type unpacker struct {
	*linear
	s, m, x, raw amd64.Vec
	negBias      any
}

func newUnpacker(isa ISA, p kernel.Problem) *unpacker {
	t := tile{p: p, isa: isa, mr: 1, vecs: p.Layout.Cols * isa.Halves(), streams: 1}
	u := &unpacker{linear: &linear{Emitter: NewEmitter(isa), tile: t, c: t.codec()}}
	u.raw, u.x, u.s, u.m, u.t = u.Vec(), u.Vec(), u.Vec(), u.Vec(), u.Vec()
	u.masks()
	if p.Arith == kernel.F32 && p.Format.Bias != 0 {
		u.negBias = u.constant(true, u.coefBits())
	}
	return u
}

func (u *unpacker) generate() ([]byte, error) {
	var args kernel.UnpackArgs
	u.arg(regW, unsafe.Offsetof(args.W))
	u.arg(regS, unsafe.Offsetof(args.S))
	u.arg(regOut, unsafe.Offsetof(args.Out))
	u.arg(regLDC, unsafe.Offsetof(args.Panels)) // a register that unpack has no other use for
	panel := u.Here()
	if u.p.Arith == kernel.F32 && !u.p.Format.IsFloat() {
		u.dequantise()
	} else {
		u.runs(u.p.K, func() {
			for i := range u.width() {
				u.vector(i)
			}
		})
	}
	u.Dec(regLDC)
	u.Jcc(amd64.CcNE, panel)
	u.Ret()
	return u.Code()
}

// dequantise walks a panel group by group, vector by vector, with one scale and offset at a time.
func (u *unpacker) dequantise() {
	runs := u.p.Format.Group / u.c.runK()
	u.times(regGroups, u.p.K/u.p.Format.Group, func() {
		u.startSuper()
		for i := range u.width() {
			if i > 0 {
				u.SubI(regW, runs*u.runBytes())
				u.SubI(regOut, runs*u.c.planes*u.stepBytes())
			}
			u.loadScale(u.scales(), u.raw, 0, i)
			u.runs(u.p.Format.Group, func() { u.vector(i) })
		}
		u.AddI(regS, u.scaleStep())
	})
}

func (u *unpacker) scales() []amd64.Vec {
	if u.p.Format.Offset {
		return []amd64.Vec{u.s, u.m}
	}
	return []amd64.Vec{u.s}
}

// runs repeats body for every period of runs over k.
func (u *unpacker) runs(k int, body func()) {
	u.times(regInner, k/u.c.runK()/u.c.period, func() {
		body()
		u.AddI(regW, u.c.period*u.runBytes())
		u.AddI(regOut, u.c.period*u.c.planes*u.stepBytes())
	})
}

// vector unpacks vector i of one period of runs.
func (u *unpacker) vector(i int) {
	for r := range u.c.period {
		src, at := u.source([]amd64.Vec{u.raw}, r, 0, i), int(u.weights(0, 0, i).Disp)
		for p := range u.c.planes {
			u.c.expand(u.linear, u.x, src, p)
			u.scale()
			u.StoreV(amd64.M(regOut, u.c.step(r, p)*u.stepBytes()+at), u.x)
		}
	}
}

// scale turns codes to weights in F32.
func (u *unpacker) scale() {
	if u.p.Arith != kernel.F32 || u.p.Format.IsFloat() {
		return
	}
	if u.negBias != nil {
		u.Op(amd64.VADDPS, u.x, u.x, u.negBias)
	}
	if u.p.Format.Offset {
		u.Op(amd64.VFMADD213PS, u.x, u.s, u.m)
	} else {
		u.Op(amd64.VMULPS, u.x, u.x, u.s)
	}
}
