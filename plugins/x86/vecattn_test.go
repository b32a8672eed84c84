package x86

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// attnCase is a context for M query rows, [lo, hi) each, read in calls of some number of blocks.
type attnCase struct {
	p         kernel.Problem
	positions int
	lo, hi    []int
	q, k, v   [][]float64 // as stored
	keys      []byte      // Elem [blocks][Dim][16]
	values    []byte      // Elem [blocks*16][Dim]
	blocks    int
}

// newAttn makes random rows. Positions that do not exist hold NaN.
func newAttn(t testing.TB, p kernel.Problem, positions int, rng *rand.Rand) *attnCase {
	c := &attnCase{p: p, positions: positions, blocks: (positions + 15) / 16}
	size := p.Elem.Bytes()
	c.keys = guarded[byte](t, c.blocks*16*p.Dim*size)
	c.values = guarded[byte](t, c.blocks*16*p.Dim*size)
	for pos := range c.blocks * 16 {
		k, v := make([]float64, p.Dim), make([]float64, p.Dim)
		for d := range p.Dim {
			x, y := float32(rng.NormFloat64()), float32(rng.NormFloat64())
			if pos >= positions {
				x, y = float32(math.NaN()), float32(math.NaN())
			}
			k[d] = storeElem(p.Elem, c.keys[((pos/16*p.Dim+d)*16+pos%16)*size:], x)
			v[d] = storeElem(p.Elem, c.values[(pos*p.Dim+d)*size:], y)
		}
		c.k, c.v = append(c.k, k), append(c.v, v)
	}
	for range p.M {
		q := make([]float64, p.Dim)
		for d := range q {
			q[d] = float64(float32(rng.NormFloat64() * 2 / math.Sqrt(float64(p.Dim))))
		}
		c.q = append(c.q, q)
		c.lo, c.hi = append(c.lo, 0), append(c.hi, positions)
	}
	return c
}

// storeElem stores x and returns what a load gives.
func storeElem(e kernel.ElemType, b []byte, x float32) float64 {
	switch e {
	case kernel.ElemF16:
		*(*uint16)(unsafe.Pointer(&b[0])) = ref.F32ToF16(x)
	case kernel.ElemBF16:
		*(*uint16)(unsafe.Pointer(&b[0])) = ref.F32ToBF16(x)
	default:
		*(*float32)(unsafe.Pointer(&b[0])) = x
	}
	return loadElem(e, b)
}

// attnState is the state of the rows between calls, on guarded memory.
type attnState struct {
	a             *kernel.AttnArgs
	args          unsafe.Pointer
	lo, hi        []int32
	top, sum, acc []float32
}

func (c *attnCase) state(t testing.TB, x kernel.Exec) *attnState {
	m, dim := c.p.M, c.p.Dim
	s := &attnState{lo: guarded[int32](t, m), hi: guarded[int32](t, m),
		top: guarded[float32](t, m), sum: guarded[float32](t, m), acc: guarded[float32](t, m*dim)}
	q, tmp := guarded[float32](t, dim*m), guarded[byte](t, x.ScratchBytes)
	for i := range tmp {
		tmp[i] = 0xff
	}
	for r := range m {
		s.top[r] = float32(math.Inf(-1))
		for d := range dim {
			q[d*m+r] = float32(c.q[r][d])
		}
	}
	s.a, s.args = newArgs(t, kernel.AttnArgs{Q: ptr(q), Lo: ptr(s.lo), Hi: ptr(s.hi), Max: ptr(s.top), Sum: ptr(s.sum),
		Acc: ptr(s.acc), Tmp: ptr(tmp)})
	return s
}

// attend goes through the context in calls of at most perCall blocks.
func (c *attnCase) attend(t testing.TB, s *attnState, call func(unsafe.Pointer), perCall int) {
	block := 16 * c.p.Dim * c.p.Elem.Bytes()
	for b := 0; b < c.blocks; b += perCall {
		s.a.K, s.a.V = unsafe.Add(ptr(c.keys), b*block), unsafe.Add(ptr(c.values), b*block)
		s.a.Blocks = int64(min(perCall, c.blocks-b))
		if b > 0 {
			s.lo, s.hi = guarded[int32](t, c.p.M), guarded[int32](t, c.p.M) // the emulator calls later
			s.a.Lo, s.a.Hi = ptr(s.lo), ptr(s.hi)
		}
		for r := range s.lo {
			s.lo[r], s.hi[r] = int32(c.lo[r]-16*b), int32(c.hi[r]-16*b)
		}
		call(s.args)
	}
}

// run attends and hands Acc/Sum of every row (zeros for Sum 0) to check.
func (c *attnCase) run(t *rig, call func(unsafe.Pointer), x kernel.Exec, perCall int, check func(out [][]float64) error) {
	s := c.state(t, x)
	c.attend(t, s, call, perCall)
	lo, hi := slices.Clone(c.lo), slices.Clone(c.hi)
	t.check(func() error {
		out := make([][]float64, c.p.M)
		for r := range out {
			out[r] = wide(s.acc[r*c.p.Dim : (r+1)*c.p.Dim])
			for d := range out[r] {
				if s.sum[r] != 0 {
					out[r][d] /= float64(s.sum[r])
				}
			}
			if seen := lo[r] < hi[r]; seen == (s.sum[r] == 0) || seen == math.IsInf(float64(s.top[r]), -1) {
				return named(fmt.Errorf("row %d sees [%d, %d) and has sum %g, maximum %g", r, lo[r], hi[r], s.sum[r], s.top[r]), c.p, x)
			}
		}
		return named(check(out), c.p, perCall)
	})
}

// check compares with the oracle.
func (c *attnCase) check(t *rig, call func(unsafe.Pointer), x kernel.Exec, perCall int) {
	want := ref.Attention(c.q, c.k, c.v, c.lo, c.hi)
	c.run(t, call, x, perCall, func(out [][]float64) error {
		for r, got := range out {
			if err := near(got, want[r], 1e-5); err != nil {
				return fmt.Errorf("row %d of %d positions: %w", r, c.positions, err)
			}
		}
		return nil
	})
}

// ragged gives the rows causal, windowed and empty views.
func (c *attnCase) ragged(rng *rand.Rand) {
	for r := range c.p.M {
		switch rng.IntN(4) {
		case 0:
			c.hi[r] = max(1, c.positions-r)
		case 1:
			c.lo[r] = rng.IntN(c.positions)
			c.hi[r] = c.lo[r] + 1 + rng.IntN(c.positions-c.lo[r])
		case 2:
			c.lo[r], c.hi[r] = c.positions/2, c.positions/2
		}
	}
}

func TestAttn(t *testing.T) {
	elems := []kernel.ElemType{kernel.ElemF16, kernel.ElemBF16, kernel.ElemF32}
	eachRig(t, func(t *rig) {
		for m := 1; m <= 17; m++ {
			for i, dim := range []int{8, 64, 96, 128, 72, 256} {
				if t.thin(m+i, 5) {
					continue
				}
				p := kernel.Problem{Op: kernel.OpAttn, M: m, Dim: dim, Elem: elems[(m+i)%3]}
				call, x := emitted(t, t.isa, p, nil)
				rng := rand.New(rand.NewPCG(uint64(m), uint64(dim)))
				for _, n := range []int{1, 16, 17, 150} {
					t.next()
					c := newAttn(t, p, n, rng)
					c.check(t, call, x, 1+rng.IntN(9))
					c.ragged(rng)
					c.check(t, call, x, 1+rng.IntN(9))
				}
			}
		}
	})
}

// TestAttnSpace tries every value of every parameter.
func TestAttnSpace(t *testing.T) {
	eachRig(t, func(t *rig) {
		for i, m := range []int{1, 2, 3, 4, 8, 16, 32} {
			for j, dim := range []int{64, 88, 256} {
				if t.thin(i+j, 3) {
					continue
				}
				p := kernel.Problem{Op: kernel.OpAttn, M: m, Dim: dim, Elem: kernel.ElemF16}
				space, err := attnSpace(t.isa, p)
				if err != nil {
					t.Fatal(err)
				}
				if err := space.Validate(); err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				for n, cfg := range configs(space) {
					t.next()
					if t.thin(n, 2) {
						continue
					}
					rng := rand.New(rand.NewPCG(9, uint64(m)))
					c := newAttn(t, p, 90, rng)
					c.ragged(rng)
					call, x := emitted(t, t.isa, p, cfg)
					c.check(t, call, x, 10)
				}
			}
		}
	})
}

// TestAttnExtremes: scores far apart, equal, and a fault in the model that must show.
func TestAttnExtremes(t *testing.T) {
	eachRig(t, func(t *rig) {
		p := kernel.Problem{Op: kernel.OpAttn, M: 3, Dim: 64, Elem: kernel.ElemF32}
		call, x := emitted(t, t.isa, p, nil)
		rng := rand.New(rand.NewPCG(1, 1))
		for _, factor := range []float64{0, 1e3, 1e20} {
			c := newAttn(t, p, 90, rng)
			for _, q := range c.q {
				for d := range q {
					q[d] = float64(float32(q[d] * factor))
				}
			}
			c.check(t, call, x, 4)
		}
		c := newAttn(t, p, 90, rng)
		c.hi[0] = 40
		storeElem(p.Elem, c.keys[(50/16*p.Dim*16+50%16)*4:], float32(math.NaN()))
		c.run(t, call, x, 4, func(out [][]float64) error {
			if out[0][0] != out[0][0] || out[1][0] == out[1][0] {
				return fmt.Errorf("a NaN key at 50: the row that ends before it has %g, one that sees it %g", out[0][0], out[1][0])
			}
			return nil
		})
	})
}

// BenchmarkAttn reports multiply-adds and cache bytes a second.
func BenchmarkAttn(b *testing.B) {
	for _, s := range isas {
		if !s.native {
			continue
		}
		for _, shape := range [][3]int{{1, 64, 4096}, {2, 256, 1024}, {4, 128, 4096}, {8, 256, 512}, {32, 256, 512}, {16, 64, 512}} {
			p := kernel.Problem{Op: kernel.OpAttn, M: shape[0], Dim: shape[1], Elem: kernel.ElemF16}
			b.Run(fmt.Sprintf("%s/m%d-d%d-n%d", s.isa.Name, shape[0], shape[1], shape[2]), func(b *testing.B) {
				call, x := emitted(b, s.isa, p, nil)
				c := newAttn(b, p, shape[2], rand.New(rand.NewPCG(1, 1)))
				st := c.state(b, x)
				b.SetBytes(int64(2 * len(c.keys)))
				for b.Loop() {
					c.attend(b, st, call, c.blocks)
				}
				mac := 2 * float64(p.M*p.Dim*shape[2]) * float64(b.N)
				b.ReportMetric(mac/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
