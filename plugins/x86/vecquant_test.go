package x86

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// quantRow is one OpQuant call, row m of a block of MR, on guarded memory. Dwords of other rows hold
// a marker.
type quantRow struct {
	p           kernel.Problem
	m           int
	x, y, w     []float32
	before      []float32 // x before the call
	a           []uint32
	scale, sums []uint32
	args        unsafe.Pointer
}

const marker = 0xdeadbeef

func newQuantRow(t testing.TB, p kernel.Problem, m int, rng *rand.Rand) *quantRow {
	r := &quantRow{p: p, m: m, w: normals(t, rng, p.K, 1)}
	r.x, r.y = normals(t, rng, p.K, 2), normals(t, rng, p.K, 0.5)
	r.before = append([]float32(nil), r.x...)
	groups := p.Act.Groups(p.K)
	r.a = guarded[uint32](t, p.Act.BlockBytes(p.K)/4)
	r.scale, r.sums = guarded[uint32](t, groups*p.Act.MR), guarded[uint32](t, groups*p.Act.MR)
	for _, s := range [][]uint32{r.a, r.scale, r.sums} {
		for i := range s {
			s[i] = marker
		}
	}
	_, r.args = newArgs(t, kernel.QuantArgs{X: ptr(r.x), Y: ptr(r.y), W: ptr(r.w), Eps: one(t, float32(1e-5)),
		A: ptrAt(r.a, m), Scale: ptrAt(r.scale, m), Sum: ptrAt(r.sums, m), Tmp: ptr(guarded[float32](t, 4*max(p.Act.Group, 1)))})
	return r
}

// want is the row that is packed, in float64.
func (r *quantRow) want() []float64 {
	x := wide(r.before)
	switch r.p.Pre {
	case kernel.PreAddNorm:
		for i := range x {
			x[i] = float64(r.before[i] + r.y[i])
		}
		return ref.RMSNorm(x, wide(r.w), float64(float32(1e-5)))
	case kernel.PreNorm:
		return ref.RMSNorm(x, wide(r.w), float64(float32(1e-5)))
	case kernel.PreGLU:
		for i := range x {
			x[i] = ref.Gate(r.p.Gate, x[i]) * float64(r.y[i])
		}
	}
	return x
}

// dword is step s of the row, having checked that the others' dwords are untouched.
func (r *quantRow) dword(a []uint32, s int) (uint32, error) {
	for m := range r.p.Act.MR {
		if m != r.m && a[s*r.p.Act.MR+m] != marker {
			return 0, fmt.Errorf("step %d of row %d was overwritten", s, m)
		}
	}
	return a[s*r.p.Act.MR+r.m], nil
}

// check compares what was stored with the oracle.
func (r *quantRow) check() error {
	for i, v := range r.before {
		if r.p.Pre == kernel.PreAddNorm {
			v += r.y[i]
		}
		if r.x[i] != v && v == v {
			return fmt.Errorf("x[%d] = %g after the call, want %g", i, r.x[i], v)
		}
	}
	if r.p.Act.Arith == kernel.F32 {
		return r.checkFloats()
	}
	want, act := r.want(), r.p.Act
	for g := range act.Groups(r.p.K) {
		if err := r.checkGroup(g, want[g*act.Group:(g+1)*act.Group]); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	return nil
}

func (r *quantRow) checkGroup(g int, want []float64) error {
	act, qmax := r.p.Act, float64(r.p.Act.Arith.QMax())
	bits, err := r.dword(r.scale, g)
	if err != nil {
		return err
	}
	s := float64(math.Float32frombits(bits))
	amax := 0.0
	for _, v := range want {
		amax = max(amax, math.Abs(v))
	}
	if amax/qmax < 0x1p-126 {
		amax = 0
	}
	if math.Abs(s-amax/qmax) > 1e-6*s {
		return fmt.Errorf("scale %g, want %g", s, amax/qmax)
	}
	steps, sum := len(want)*act.Arith.Bytes()/4, int32(0)
	for t := range steps {
		d, err := r.dword(r.a, g*steps+t)
		if err != nil {
			return err
		}
		for i, q := range unpack(act.Arith, d) {
			k := 4*t + i
			if act.Arith == kernel.A16 {
				k = t/4*8 + kernel.A16Order[t%4*2+i]
			}
			sum += q
			if amax == 0 && q != 0 || math.Abs(float64(q)) > qmax ||
				amax != 0 && math.Abs(want[k]/(amax/qmax)-float64(q)) > 0.5+2e-6*qmax {
				return fmt.Errorf("code %d of %g with scale %g is %d", k, want[k], s, q)
			}
		}
	}
	if got, err := r.dword(r.sums, g); err != nil || int32(got) != sum {
		return fmt.Errorf("sum %d, want %d (%v)", int32(got), sum, err)
	}
	return nil
}

// unpack splits a dword into its codes.
func unpack(a kernel.Arith, d uint32) []int32 {
	if a == kernel.A16 {
		return []int32{int32(int16(d)), int32(int16(d >> 16))}
	}
	return []int32{int32(int8(d)), int32(int8(d >> 8)), int32(int8(d >> 16)), int32(int8(d >> 24))}
}

func (r *quantRow) checkFloats() error {
	got := make([]float64, r.p.K)
	for k := range got {
		d, err := r.dword(r.a, k)
		if err != nil {
			return err
		}
		got[k] = float64(math.Float32frombits(d))
	}
	if err := near(got, r.want(), 1e-6); err != nil {
		return err
	}
	for g := range r.p.Act.Groups(r.p.K) {
		d, err := r.dword(r.sums, g)
		sum := 0.0
		for _, v := range got[g*r.p.Act.Group:][:r.p.Act.Group] {
			sum += v
		}
		if s := float64(math.Float32frombits(d)); err != nil || math.Abs(s-sum) > 1e-5 {
			return fmt.Errorf("sum of group %d is %g, want %g (%v)", g, s, sum, err)
		}
	}
	return nil
}

// quantProblems covers every step and gate with every arithmetic, group, interleave, and lengths
// that do and do not divide by the vector.
func quantProblems() []kernel.Problem {
	var out []kernel.Problem
	pres := []kernel.Problem{{Pre: kernel.PreNone}, {Pre: kernel.PreNorm}, {Pre: kernel.PreAddNorm},
		{Pre: kernel.PreGLU, Gate: kernel.GateSiLU}, {Pre: kernel.PreGLU, Gate: kernel.GateGELU},
		{Pre: kernel.PreGLU, Gate: kernel.GateGELUTan}}
	acts := []kernel.Act{{Arith: kernel.F32, Group: 0}, {Arith: kernel.F32, Group: 32}, {Arith: kernel.F32, Group: 128}}
	for _, g := range []int{16, 32, 64, 128, 256} {
		acts = append(acts, kernel.Act{Arith: kernel.A8, Group: g}, kernel.Act{Arith: kernel.A16, Group: g})
	}
	for i, a := range acts {
		for j, p := range pres {
			for _, k := range []int{96, 160, 576, 640, 768, 4, 33} {
				if a.Group != 0 && k%a.Group != 0 {
					continue
				}
				a.MR = []int{1, 2, 4, 6, 16}[(i+j+k/8)%5]
				out = append(out, kernel.Problem{Op: kernel.OpQuant, Arith: a.Arith, K: k, Act: a, Pre: p.Pre, Gate: p.Gate})
			}
		}
	}
	return out
}

func TestQuant(t *testing.T) {
	eachRig(t, func(t *rig) {
		n := 0
		for i, p := range quantProblems() {
			s, err := quantSpace(t.isa, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range configs(s) {
				if n++; t.thin(n, 11) {
					continue
				}
				t.next()
				call, _ := emitted(t, t.isa, p, c)
				rng := rand.New(rand.NewPCG(7, uint64(i)))
				r := newQuantRow(t, p, rng.IntN(p.Act.MR), rng)
				call(r.args)
				t.check(func() error { return named(r.check(), p, c) })
			}
		}
	})
}

// named says which kernel an error is about.
func named(err error, p kernel.Problem, about any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s with %v: %w", p, about, err)
}

// TestQuantExtremes: zeros, subnormal scales, huge and lone values, and what is not finite.
func TestQuantExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	rows := map[string]func(x []float32){
		"zeros":     func(x []float32) { clear(x) },
		"tiny":      func(x []float32) { fill(x, 1e-37) },
		"subnormal": func(x []float32) { fill(x, 1e-44) },
		"huge":      func(x []float32) { fill(x, -3e38) },
		"lone":      func(x []float32) { clear(x); x[17] = -5 },
		"ties": func(x []float32) {
			for i := range x {
				x[i] = float32(i%128) - 0.5
			}
			x[0], x[32], x[64] = 127, -127, 127
		},
	}
	eachRig(t, func(t *rig) {
		for _, arith := range []kernel.Arith{kernel.A8, kernel.A16} {
			p := kernel.Problem{Op: kernel.OpQuant, K: 96, Pre: kernel.PreNone, Act: kernel.Act{Arith: arith, Group: 32, MR: 1}}
			call, _ := emitted(t, t.isa, p, nil)
			for name, set := range rows {
				r := newQuantRow(t, p, 0, rand.New(rand.NewPCG(1, 2)))
				set(r.x)
				copy(r.before, r.x)
				call(r.args)
				t.check(func() error { return named(r.check(), p, name) })
			}
			for _, bad := range []float32{nan, -nan, inf, -inf} {
				r := newQuantRow(t, p, 0, rand.New(rand.NewPCG(1, 2)))
				r.x[40] = bad
				call(r.args)
				t.check(func() error {
					for g, want := range []bool{true, false, true} {
						s := float64(math.Float32frombits(r.scale[g]))
						if finite := !math.IsNaN(s) && !math.IsInf(s, 0); finite != want {
							return fmt.Errorf("%s with %g in group 1: scale %g of group %d", arith, bad, s, g)
						}
					}
					return nil
				})
			}
		}
	})
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

func TestQuantRefuses(t *testing.T) {
	for _, p := range []kernel.Problem{
		{Op: kernel.OpQuant, K: 64, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, MR: 1}},
		{Op: kernel.OpQuant, K: 64, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, Group: 24, MR: 1}},
		{Op: kernel.OpQuant, K: 80, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 1}},
		{Op: kernel.OpQuant, K: 64, Pre: kernel.PreGLU, Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 1}},
		{Op: kernel.OpQuant, K: 64, Pre: "x", Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 1}},
		{Op: kernel.OpQuant, K: 64, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, Group: 32}},
	} {
		_, err := Backend{ISA: AVX2}.Space(context.Background(), AVX2.Features, p)
		if err == nil {
			t.Errorf("%s: no error", p)
		}
	}
}
