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
	if _, ok := b.entries[kernel.EntryRows]; ok {
		for _, n := range [][2]int{{1, 4}, {8, 4}, {5, 1}, {16, 1}, {7, 3}} {
			for _, contiguous := range []bool{false, true} {
				name := fmt.Sprintf("%d tokens of %d heads, contiguous %t, bias %t", n[0], n[1], contiguous, n[0]%2 == 1)
				b.try(&errs, name, func() error { return b.ropeRows(n[0], n[1], contiguous, n[0]%2 == 1) })
			}
		}
	}
	return errs
}

// ropeRows holds the entry "rows" against main, token by token, byte by byte, but for a last place: the
// two may add up a norm in another order.
func (b *bench) ropeRows(tokens, heads int, contiguous, withBias bool) error {
	p, dim, size := b.p, b.p.Dim, b.p.Elem.Bytes()
	x, turns := b.normals(tokens*(heads*dim+8), 2), b.normals(tokens*(p.Rot+8), 1)
	xBuf, turnBuf, bias, w := put(b, x), put(b, turns), put(b, b.normals(heads*dim, 1)), put(b, b.normals(dim, 1))
	if !withBias {
		bias = Buffer{}
	}
	eps, scale, tmp := put(b, []float32{1e-6}), put(b, []float32{0.125}), b.fill((b.e.ScratchBytes+63)&^63)
	row, head, elem := heads*size, size, (tokens*heads+3)*size
	if contiguous {
		row, head, elem = heads*dim*size+32, dim*size, size
	}
	got := b.fill((tokens-1)*row + (heads-1)*head + (dim-1)*elem + size)
	want := b.fill(len(got.Mem))
	xStride, turnStride := 4*(heads*dim+8), 4*(p.Rot+8)
	args := func(k int, out Buffer) []uint64 {
		return []uint64{xBuf.at(k * xStride), bias.Addr, w.Addr, turnBuf.at(k * turnStride), turnBuf.at(k*turnStride + 2*p.Rot),
			eps.Addr, scale.Addr, out.at(k * row), uint64(heads), uint64(head), uint64(elem)}
	}
	for k := range tokens {
		b.call(kernel.EntryMain, args(k, want)...)
	}
	b.call(kernel.EntryRows, append(args(0, got), uint64(tokens), uint64(xStride), uint64(turnStride), uint64(row), tmp.Addr)...)
	if b.err != nil {
		return b.err
	}
	for i := 0; i < len(got.Mem); i += size {
		g, v := loadElem(p.Elem, got.Mem[i:][:size]), loadElem(p.Elem, want.Mem[i:][:size])
		if g != g && v != v {
			continue
		}
		if err := within(g, v, 1e-6+2*elemError(p.Elem)*math.Abs(v)); err != nil {
			return fmt.Errorf("byte %d of the output: %w", i, err)
		}
	}
	return unchanged("X", xBuf, x)
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
