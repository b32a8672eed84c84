package x86

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// ropeRowsCase is one call of the entry "rows": contiguous heads, or heads and tokens adjacent and
// elements stride apart.
type ropeRowsCase struct {
	p            kernel.Problem
	tokens       int
	heads        int
	stride       int // elements between elements; 1: contiguous heads
	bias         bool
	apart, bytes int // floats between tokens of X, bytes between those of Out
}

func (c ropeRowsCase) run(t *rig) {
	call, exec := emittedRows(t, t.isa, c.p)
	rng := rand.New(rand.NewPCG(uint64(c.tokens), uint64(c.p.Dim)))
	size, dim := c.p.Elem.Bytes(), c.p.Dim
	c.apart = c.heads*dim + 24
	head, elem := size, c.stride*size
	c.bytes = c.heads * size
	if c.stride == 1 {
		head, elem = dim*size, size
		c.bytes = c.heads*head + 16
	}
	x, w := normals(t, rng, c.tokens*c.apart, 1), normals(t, rng, dim, 1)
	bias, turns := normals(t, rng, c.heads*dim, 1), normals(t, rng, c.tokens*c.p.Rot, 1)
	out, tmp := guarded[byte](t, (c.tokens-1)*c.bytes+(c.heads-1)*head+(dim-1)*elem+size), guarded[byte](t, exec.ScratchBytes)
	for i := range out {
		out[i] = 0xa5
	}
	const eps, scale = float32(1e-6), float32(0.125)
	a := kernel.RopeRowsArgs{RopeArgs: kernel.RopeArgs{X: ptr(x), W: ptr(w), Eps: one(t, eps), Scale: one(t, scale),
		Out: ptr(out), Heads: int64(c.heads), HeadStride: int64(head), ElemStride: int64(elem)}, Rows: int64(c.tokens),
		XStride: int64(4 * c.apart), TurnStride: int64(4 * c.p.Rot), RowStride: int64(c.bytes), Tmp: ptr(tmp)}
	if c.p.Rot > 0 {
		a.Cos, a.Sin = ptr(turns), ptrAt(turns, c.p.Rot/2)
	}
	if c.bias {
		a.Bias = ptr(bias)
	}
	_, args := newArgs(t, a)
	call(args)
	t.check(func() error {
		for k := range c.tokens {
			turn := turns[k*c.p.Rot:][:c.p.Rot]
			for h := range c.heads {
				v := wide(x[k*c.apart+h*dim:][:dim])
				if c.bias {
					for i := range v {
						v[i] += float64(bias[h*dim+i])
					}
				}
				if c.p.Norm {
					v = ref.RMSNorm(v, wide(w), float64(eps))
				}
				v = ref.Rotate(v, wide(turn[:c.p.Rot/2]), wide(turn[c.p.Rot/2:]))
				for i := range v {
					v[i] *= float64(scale)
				}
				at := out[k*c.bytes+h*head:]
				if err := (ropeCase{p: c.p, stride: elem / size}).compare(at, v); err != nil {
					return named(fmt.Errorf("token %d, head %d: %w", k, h, err), c.p, c)
				}
				for i := range dim {
					for j := range size {
						at[i*elem+j] = 0xa5
					}
				}
			}
		}
		for i, b := range out {
			if b != 0xa5 {
				return named(fmt.Errorf("byte %d between elements was written", i), c.p, c)
			}
		}
		return nil
	})
}

// TestRopeRows: any number of tokens and heads, so that lines are left over in every way.
func TestRopeRows(t *testing.T) {
	shapes := [][2]int{{64, 64}, {128, 128}, {256, 64}, {256, 256}, {80, 32}, {72, 40}, {64, 0}, {24, 12}, {4, 4}}
	counts := [][2]int{{8, 4}, {8, 1}, {1, 4}, {16, 1}, {5, 1}, {7, 3}, {2, 2}, {16, 2}, {3, 9}, {1, 1}}
	eachRig(t, func(t *rig) {
		i := 0
		for _, s := range shapes {
			for _, elem := range []kernel.ElemType{kernel.ElemF32, kernel.ElemF16, kernel.ElemBF16} {
				for _, norm := range []bool{false, true} {
					p := kernel.Problem{Op: kernel.OpRope, Dim: s[0], Rot: s[1], Norm: norm, Elem: elem}
					for _, strided := range []bool{false, true} {
						i++
						n := counts[(i*7+i/5)%len(counts)]
						c := ropeRowsCase{p: p, tokens: n[0], heads: n[1], stride: 1, bias: i%3 == 0}
						if strided {
							c.stride = n[0]*n[1] + i/2%2*3
						}
						t.next()
						c.run(t)
					}
				}
			}
		}
	})
}

// BenchmarkRope stores the queries, and the keys, of eight tokens of four heads of 256, and reports
// nanoseconds an element.
func BenchmarkRope(b *testing.B) {
	const tokens, dim = 8, 256
	for _, s := range isas {
		if !s.native {
			continue
		}
		for _, c := range []struct {
			name   string
			heads  int
			elem   kernel.ElemType
			stride int
		}{{"queries", 4, kernel.ElemF32, 32}, {"keys", 1, kernel.ElemF16, 16}, {"values", 1, kernel.ElemF16, 1}} {
			p := kernel.Problem{Op: kernel.OpRope, Dim: dim, Rot: dim, Elem: c.elem}
			b.Run(s.isa.Name+"/"+c.name, func(b *testing.B) {
				call, x := emittedRows(b, s.isa, p)
				size, lines := c.elem.Bytes(), tokens*c.heads
				head, row := size, c.heads*size
				if c.stride == 1 {
					head, row = dim*size, c.heads*dim*size
				}
				in, turns := guarded[float32](b, lines*dim), guarded[float32](b, tokens*dim)
				_, args := newArgs(b, kernel.RopeRowsArgs{RopeArgs: kernel.RopeArgs{X: ptr(in), Cos: ptr(turns), Sin: ptrAt(turns, dim/2),
					Scale: one(b, float32(1)), Out: ptr(guarded[byte](b, 64*lines*dim)), Heads: int64(c.heads), HeadStride: int64(head),
					ElemStride: int64(c.stride * size)}, Rows: tokens, XStride: int64(4 * c.heads * dim), TurnStride: 4 * dim,
					RowStride: int64(row), Tmp: ptr(guarded[byte](b, x.ScratchBytes))})
				for b.Loop() {
					call(args)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines*dim), "ns/elem")
			})
		}
	}
}
