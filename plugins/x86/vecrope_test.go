package x86

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// ropeCase is one OpRope call: contiguous heads, or elements stride apart and heads interleaved.
type ropeCase struct {
	p      kernel.Problem
	heads  int
	stride int // elements between elements
	bias   bool
}

func (c ropeCase) run(t *rig, call func(unsafe.Pointer)) {
	rng := rand.New(rand.NewPCG(3, uint64(c.p.Dim)))
	x := normals(t, rng, c.heads*c.p.Dim, 1)
	w, cos, sin := normals(t, rng, c.p.Dim, 1), normals(t, rng, c.p.Rot/2, 1), normals(t, rng, c.p.Rot/2, 1)
	bias := normals(t, rng, c.heads*c.p.Dim, 1)
	size := c.p.Elem.Bytes()
	head := c.p.Dim * c.stride
	out := guarded[byte](t, ((c.heads-1)*head+(c.p.Dim-1)*c.stride+1)*size)
	for i := range out {
		out[i] = 0xa5
	}
	const eps, scale = float32(1e-6), float32(0.125)
	a := kernel.RopeArgs{X: ptr(x), W: ptr(w), Cos: ptr(cos), Sin: ptr(sin), Eps: one(t, eps), Scale: one(t, scale),
		Out: ptr(out), Heads: int64(c.heads), HeadStride: int64(head * size), ElemStride: int64(c.stride * size)}
	if c.bias {
		a.Bias = ptr(bias)
	}
	_, args := newArgs(t, a)
	call(args)
	t.check(func() error {
		for h := range c.heads {
			v := wide(x[h*c.p.Dim : (h+1)*c.p.Dim])
			if c.bias {
				for i := range v {
					v[i] += float64(bias[h*c.p.Dim+i])
				}
			}
			if c.p.Norm {
				v = ref.RMSNorm(v, wide(w), float64(eps))
			}
			v = ref.Rotate(v, wide(cos), wide(sin))
			for i := range v {
				v[i] *= float64(scale)
			}
			if err := c.compare(out[h*head*size:], v); err != nil {
				return named(fmt.Errorf("head %d: %w", h, err), c.p, c)
			}
		}
		for i, b := range out {
			if i/size%c.stride != 0 && b != 0xa5 {
				return named(fmt.Errorf("byte %d between elements was written", i), c.p, c)
			}
		}
		return nil
	})
}

// compare checks the elements of one head.
func (c ropeCase) compare(out []byte, want []float64) error {
	got := make([]float64, len(want))
	for i := range got {
		got[i] = loadElem(c.p.Elem, out[i*c.stride*c.p.Elem.Bytes():])
	}
	rel := map[kernel.ElemType]float64{kernel.ElemF32: 1e-6, kernel.ElemF16: 5e-4, kernel.ElemBF16: 4e-3}
	return near(got, want, rel[c.p.Elem])
}

func loadElem(e kernel.ElemType, b []byte) float64 {
	switch u := *(*uint16)(unsafe.Pointer(&b[0])); e {
	case kernel.ElemF16:
		return float64(ref.F16ToF32(u))
	case kernel.ElemBF16:
		return float64(ref.BF16ToF32(u))
	}
	return float64(*(*float32)(unsafe.Pointer(&b[0])))
}

func TestRope(t *testing.T) {
	shapes := [][2]int{{64, 64}, {128, 128}, {96, 96}, {80, 32}, {256, 64}, {256, 256}, {64, 0}, {72, 40}, {24, 12}, {8, 8}, {2, 2}}
	eachRig(t, func(t *rig) {
		for i, s := range shapes {
			for j, elem := range []kernel.ElemType{kernel.ElemF32, kernel.ElemF16, kernel.ElemBF16} {
				for _, norm := range []bool{false, true} {
					p := kernel.Problem{Op: kernel.OpRope, Dim: s[0], Rot: s[1], Norm: norm, Elem: elem}
					call, _ := emitted(t, t.isa, p, nil)
					for _, stride := range []int{1, 2, 16} {
						if t.next(); t.thin(i+j+stride, 3) {
							continue
						}
						c := ropeCase{p: p, heads: 1 + (i+j)%3, stride: stride, bias: (i+j+stride)%2 == 0}
						c.run(t, call)
					}
				}
			}
		}
	})
}

// TestRopeInPlace: with f32 elements the output may be the input.
func TestRopeInPlace(t *testing.T) {
	eachRig(t, func(t *rig) {
		p := kernel.Problem{Op: kernel.OpRope, Dim: 80, Rot: 40, Norm: true, Elem: kernel.ElemF32}
		call, _ := emitted(t, t.isa, p, nil)
		rng := rand.New(rand.NewPCG(3, 4))
		x, w, turn := normals(t, rng, p.Dim, 1), normals(t, rng, p.Dim, 1), normals(t, rng, p.Rot/2, 1)
		want := ref.Rotate(ref.RMSNorm(wide(x), wide(w), 0), wide(turn), wide(turn))
		_, args := newArgs(t, kernel.RopeArgs{X: ptr(x), W: ptr(w), Cos: ptr(turn), Sin: ptr(turn), Eps: one(t, float32(0)),
			Scale: one(t, float32(1)), Out: ptr(x), Heads: 1, HeadStride: 4, ElemStride: 4})
		call(args)
		t.check(func() error { return near(wide(x), want, 1e-6) })
	})
}

// TestRopeRounding: 16-bit elements round like the reference, bit by bit, for any float.
func TestRopeRounding(t *testing.T) {
	eachRig(t, func(t *rig) {
		for _, elem := range []kernel.ElemType{kernel.ElemF16, kernel.ElemBF16} {
			p := kernel.Problem{Op: kernel.OpRope, Dim: 256, Elem: elem}
			call, _ := emitted(t, t.isa, p, nil)
			rng := rand.New(rand.NewPCG(5, 6))
			x, out := guarded[float32](t, 256*64), guarded[uint16](t, 256*64)
			for i := range x {
				x[i] = math.Float32frombits(rng.Uint32() & uint32(0xffffffff<<(i%3*10)))
			}
			copy(x, []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
				65519.99, 65520, 3.4e38, 1e-45, 6e-8, math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff)})
			_, args := newArgs(t, kernel.RopeArgs{X: ptr(x), Scale: one(t, float32(1)), Out: ptr(out), Heads: 64, HeadStride: 512, ElemStride: 2})
			call(args)
			t.check(func() error {
				for i, v := range x {
					want := ref.F32ToF16(v)
					if elem == kernel.ElemBF16 {
						want = ref.F32ToBF16(v)
					}
					if t.batch != nil && elem == kernel.ElemF16 && out[i] == want+1 {
						continue // Bochs rounds ties of halves away from zero
					}
					if v == 0 {
						want &= 0x7fff // a zero may lose its sign to the bias of zero
						out[i] &= 0x7fff
					}
					if out[i] != want {
						return fmt.Errorf("%s of %g (%#x) = %#x, want %#x", elem, v, math.Float32bits(v), out[i], want)
					}
				}
				return nil
			})
		}
	})
}
