package ref

import (
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// rope is OpRope; X is read only, Out may alias it element for element.
func rope(p kernel.Problem) kernel.Func {
	return func(args unsafe.Pointer) {
		a := *(*kernel.RopeArgs)(args)
		scratch := floatPool.Get().(*[]float32)
		defer floatPool.Put(scratch)
		buf := sized(scratch, p.Dim)
		scale := *(*float32)(a.Scale)
		for h := range int(a.Heads) {
			copy(buf, view[float32](unsafe.Add(a.X, h*p.Dim*4), p.Dim))
			if a.Bias != nil {
				for i, b := range view[float32](unsafe.Add(a.Bias, h*p.Dim*4), p.Dim) {
					buf[i] += b
				}
			}
			if p.Norm {
				norm(buf, buf, view[float32](a.W, p.Dim), *(*float32)(a.Eps))
			}
			if p.Rot > 0 {
				rotate(buf[:p.Rot], view[float32](a.Cos, p.Rot/2), view[float32](a.Sin, p.Rot/2))
			}
			out := unsafe.Add(a.Out, h*int(a.HeadStride))
			for i, v := range buf {
				store(p.Elem, unsafe.Add(out, i*int(a.ElemStride)), v*scale)
			}
		}
	}
}

func rotate(x, cos, sin []float32) {
	lo, hi := x[:len(cos)], x[len(cos):]
	for i, a := range lo {
		b := hi[i]
		lo[i] = a*cos[i] - b*sin[i]
		hi[i] = b*cos[i] + a*sin[i]
	}
}

// store writes one element of type t.
func store(t kernel.ElemType, p unsafe.Pointer, v float32) {
	switch t {
	case kernel.ElemF16:
		*(*uint16)(p) = F32ToF16(v)
	case kernel.ElemBF16:
		*(*uint16)(p) = F32ToBF16(v)
	default:
		*(*float32)(p) = v
	}
}

// load reads len(dst) elements of type t.
func load(dst []float32, t kernel.ElemType, p unsafe.Pointer) {
	switch t {
	case kernel.ElemF16:
		for i, h := range view[uint16](p, len(dst)) {
			dst[i] = F16ToF32(h)
		}
	case kernel.ElemBF16:
		for i, h := range view[uint16](p, len(dst)) {
			dst[i] = BF16ToF32(h)
		}
	default:
		copy(dst, view[float32](p, len(dst)))
	}
}
