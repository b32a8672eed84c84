package kerneltest

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Rope checks an OpRope artifact.
func Rope(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

func (b *bench) rope() []error {
	var errs []error
	size := b.p.Elem.Bytes()
	for _, heads := range []int{1, 3} {
		for _, bias := range []bool{false, true} {
			for _, c := range []struct {
				name       string
				head, elem int
			}{
				{"contiguous", b.p.Dim * size, size},
				{"transposed into K blocks", b.p.Dim * kernel.KVBlock * size, kernel.KVBlock * size},
				{"heads apart", b.p.Dim*size + 64, size},
			} {
				name := fmt.Sprintf("%s, %d heads, bias %t", c.name, heads, bias)
				b.try(&errs, name, func() error { return b.ropeCase(heads, bias, c.head, c.elem) })
			}
		}
	}
	return errs
}

func (b *bench) ropeCase(heads int, withBias bool, headStride, elemStride int) error {
	p, eps, scale := b.p, float32(1e-6), float32(0.125)
	x, bias, w := b.normals(heads*p.Dim, 2), b.normals(heads*p.Dim, 1), b.normals(p.Dim, 1)
	cos, sin := make([]float32, p.Rot/2), make([]float32, p.Rot/2)
	for i := range cos {
		s, c := math.Sincos(b.r.Float64() * 7)
		cos[i], sin[i] = float32(c), float32(s)
	}
	xBuf, wBuf, cosBuf, sinBuf := put(b, x), put(b, w), put(b, cos), put(b, sin)
	var biasBuf Buffer
	if withBias {
		biasBuf = put(b, bias)
	}
	out := b.fill((heads-1)*headStride + (p.Dim-1)*elemStride + p.Elem.Bytes())
	b.call(kernel.EntryMain, xBuf.Addr, biasBuf.Addr, wBuf.Addr, cosBuf.Addr, sinBuf.Addr,
		put(b, []float32{eps}).Addr, put(b, []float32{scale}).Addr, out.Addr,
		uint64(heads), uint64(headStride), uint64(elemStride))
	if b.err != nil {
		return b.err
	}
	for h := range heads {
		v := wide(x[h*p.Dim : (h+1)*p.Dim])
		if withBias {
			for i := range v {
				v[i] += float64(bias[h*p.Dim+i])
			}
		}
		if p.Norm {
			v = ref.RMSNorm(v, wide(w), float64(eps))
		}
		v = ref.Rotate(v, wide(cos), wide(sin))
		top := 0.0
		for i := range v {
			v[i] *= float64(scale)
			top = max(top, math.Abs(v[i]))
		}
		for i, want := range v {
			at := out.Mem[h*headStride+i*elemStride:][:p.Elem.Bytes()]
			if err := within(loadElem(p.Elem, at), want, 4e-6*top+elemError(p.Elem)*math.Abs(want)); err != nil {
				return fmt.Errorf("head %d, element %d: %w", h, i, err)
			}
			for j := range at {
				at[j] = 0xff
			}
		}
	}
	for i, v := range out.Mem {
		if v != 0xff {
			return fmt.Errorf("wrote to byte %d of the output, between elements", i)
		}
	}
	return unchanged("W", wBuf, w)
}

// elemError is half a unit in the last place, relative.
func elemError(t kernel.ElemType) float64 {
	switch t {
	case kernel.ElemF16:
		return 0x1p-11
	case kernel.ElemBF16:
		return 0x1p-8
	}
	return 0
}

func loadElem(t kernel.ElemType, p []byte) float64 {
	h := uint16(p[0]) | uint16(p[1])<<8
	switch t {
	case kernel.ElemF16:
		return float64(ref.F16ToF32(h))
	case kernel.ElemBF16:
		return float64(ref.BF16ToF32(h))
	}
	return float64(math.Float32frombits(uint32(h) | uint32(p[2])<<16 | uint32(p[3])<<24))
}
