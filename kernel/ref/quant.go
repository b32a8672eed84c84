package ref

import (
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// quant is OpQuant: one row, with the fused step before it.
func quant(p kernel.Problem) kernel.Func {
	k, act := p.K, p.Act
	return func(args unsafe.Pointer) {
		a := *(*kernel.QuantArgs)(args)
		scratch := floatPool.Get().(*[]float32)
		defer floatPool.Put(scratch)
		x := view[float32](a.X, k)
		switch p.Pre {
		case kernel.PreAddNorm:
			for i, d := range view[float32](a.Y, k) {
				x[i] += d
			}
			fallthrough
		case kernel.PreNorm:
			y := sized(scratch, k)
			norm(y, x, view[float32](a.W, k), *(*float32)(a.Eps))
			x = y
		case kernel.PreGLU:
			y := sized(scratch, k)
			glu(y, x, view[float32](a.Y, k), p.Gate)
			x = y
		}
		if act.Arith == kernel.F32 {
			packFloatRow(a, act, x)
			return
		}
		for g := range act.Groups(k) {
			packGroup(a, act, g, x[g*act.Group:(g+1)*act.Group])
		}
	}
}

// packFloatRow stores one float per step, and the sum of each group.
func packFloatRow(a kernel.QuantArgs, act kernel.Act, x []float32) {
	dst := view[float32](a.A, (len(x)-1)*act.MR+1)
	for i, v := range x {
		dst[i*act.MR] = v
	}
	for g := range act.Groups(len(x)) {
		var s float32
		for _, v := range x[g*act.Group : (g+1)*act.Group] {
			s += v
		}
		*(*float32)(unsafe.Add(a.Sum, g*act.MR*4)) = s
	}
}

// packGroup quantises and stores group g.
func packGroup(a kernel.QuantArgs, act kernel.Act, g int, x []float32) {
	s := GroupScale(act.Arith, x)
	var inv float32
	if s > 0 {
		inv = 1 / s
	}
	at, steps := g*act.MR*4, len(x)*act.Arith.Bytes()/4
	dst := view[uint32](unsafe.Add(a.A, at*steps), (steps-1)*act.MR+1)
	var sum int32
	qmax := float32(act.Arith.QMax())
	if act.Arith == kernel.A8 {
		for t := range steps {
			v := x[4*t : 4*t+4 : 4*t+4]
			q0, q1, q2, q3 := code(v[0]*inv, qmax), code(v[1]*inv, qmax), code(v[2]*inv, qmax), code(v[3]*inv, qmax)
			sum += q0 + q1 + q2 + q3
			dst[t*act.MR] = uint32(uint8(q0)) | uint32(uint8(q1))<<8 | uint32(uint8(q2))<<16 | uint32(q3)<<24
		}
	} else {
		for t := range steps {
			i := t / 4 * 8
			q0 := code(x[i+kernel.A16Order[t%4*2]]*inv, qmax)
			q1 := code(x[i+kernel.A16Order[t%4*2+1]]*inv, qmax)
			sum += q0 + q1
			dst[t*act.MR] = uint32(uint16(q0)) | uint32(q1)<<16
		}
	}
	*(*float32)(unsafe.Add(a.Scale, at)) = s
	*(*int32)(unsafe.Add(a.Sum, at)) = sum
}

// code rounds to nearest even and clamps to [-qmax, qmax]; NaN gives 0.
func code(v, qmax float32) int32 {
	if !(v < qmax) {
		if v >= qmax {
			return int32(qmax)
		}
		return 0
	}
	if v <= -qmax {
		return -int32(qmax)
	}
	const magic = 0x1.8p23 // the sum's unit is 1: the addition rounds to an integer, ties to even
	return int32(float32(v+magic) - magic)
}

// norm writes rmsnorm(x) * w; the sum of squares is kept in float64, which costs nothing here.
func norm(dst, x, w []float32, eps float32) {
	var ss float64
	for _, v := range x {
		ss += float64(v) * float64(v)
	}
	r := float32(1 / math.Sqrt(ss/float64(len(x))+float64(eps)))
	w, dst = w[:len(x)], dst[:len(x)]
	for i, v := range x {
		dst[i] = v * r * w[i]
	}
}

// glu writes gate(x) * up.
func glu(dst, x, up []float32, gate kernel.Gate) {
	f := SiLU
	switch gate {
	case kernel.GateGELU:
		f = GELU
	case kernel.GateGELUTan:
		f = GELUTanh
	}
	for i, v := range x {
		dst[i] = float32(f(float64(v))) * up[i]
	}
}
