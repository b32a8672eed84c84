package kerneltest

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// linearCase says how the operands of one case are made. Nil functions mean random.
type linearCase struct {
	name   string
	everyM bool
	exact  bool // operands are small integers: every order of summation gives the same result
	code   func(b *bench, i int) uint8
	scale  func(b *bench, i int) float32
	act    func(b *bench, m, k int) float32
}

var linearCases = []linearCase{
	{name: "random", everyM: true},
	{name: "exact", exact: true, scale: func(*bench, int) float32 { return 1 }},
	{name: "codes 0", code: func(*bench, int) uint8 { return 0 }},
	{name: "codes max, activations +-max",
		code: func(b *bench, _ int) uint8 { return b.maxCode() },
		act: func(_ *bench, m, _ int) float32 {
			if m%2 == 1 {
				return -3
			}
			return 3
		}},
	{name: "codes 0 or max, signs mixed",
		code: func(b *bench, _ int) uint8 { return b.maxCode() * uint8(b.r.IntN(2)) },
		act:  func(b *bench, _, _ int) float32 { return 3 - 6*float32(b.r.IntN(2)) }},
	{name: "scales 0, negative, subnormal, large", scale: func(b *bench, i int) float32 {
		return []float32{0, -0.5, 0x1p-20, 3, -200, 1e-3}[i%6]
	}},
	{name: "outliers", act: func(b *bench, _, k int) float32 {
		if k%37 == 5 {
			return 3e4
		}
		return float32(b.r.NormFloat64())
	}},
	{name: "rows and groups of 0", act: func(b *bench, m, k int) float32 {
		if m%2 == 0 || k < b.p.K/2 {
			return 0
		}
		return float32(b.r.NormFloat64())
	}},
	{name: "one NaN, one Inf", act: func(b *bench, m, k int) float32 {
		switch {
		case m == 0 && k == b.p.K-1:
			return float32(math.NaN())
		case m == b.e.MR && k == 0:
			return float32(math.Inf(-1))
		}
		return float32(b.r.NormFloat64())
	}},
}

// maxCode is the largest code of the format under test.
func (b *bench) maxCode() uint8 { return uint8(1<<min(b.p.Format.Bits, 8) - 1) }

// exactLimit bounds the activation codes of an exact case so that no partial sum reaches 2^24.
func (b *bench) exactLimit() int {
	qmax := b.p.Arith.QMax()
	if qmax == 0 {
		qmax = 127
	}
	return min(qmax, 1<<23/(b.p.K*(int(b.maxCode())+b.p.Format.Bias+2)))
}

func (b *bench) exactFits() bool { return b.exactLimit() >= 1 }

// linearData makes the weights and M rows of activations of a case.
func (b *bench) linearData(c linearCase, m int) (*ref.Matrix, *ref.Acts) {
	w, err := ref.NewMatrix(b.p.Format, b.p.N, b.p.K)
	if err != nil {
		b.err = err
		return &ref.Matrix{}, &ref.Acts{}
	}
	for i := range w.Codes {
		w.Codes[i] = uint8(b.r.IntN(int(b.maxCode()) + 1))
		if c.code != nil {
			w.Codes[i] = c.code(b, i)
		}
	}
	for i := range w.Scales {
		v := float32(b.r.NormFloat64() / 8)
		if c.scale != nil {
			v = c.scale(b, i)
		}
		w.Scales[i] = ref.F32ToScale(w.Format.Scale, v)
	}
	for i := range w.Offsets {
		v := float32(b.r.NormFloat64())
		if c.exact {
			v = float32(b.r.IntN(5) - 2)
		}
		w.Offsets[i] = ref.F32ToScale(w.Format.Scale, v)
	}
	b.subScales(w, c.exact)
	for i := range w.Floats {
		switch {
		case c.exact:
			w.Floats[i] = float32(b.r.IntN(256) - 128)
		case c.scale != nil:
			w.Floats[i] = c.scale(b, i)
		default:
			w.Floats[i] = float32(b.r.NormFloat64())
		}
	}
	if c.exact {
		return w, b.exactActs(m)
	}
	x := make([][]float32, m)
	for r := range x {
		x[r] = b.normals(b.p.K, 1)
		for k := range x[r] {
			if c.act != nil {
				x[r][k] = c.act(b, r, k)
			}
		}
	}
	return w, ref.Quantize(b.act(), x)
}

// subScales makes the 8-bit scales of a format that has them: any, or in an exact case such powers of
// two under the reciprocal super-scales that scales are 1.
func (b *bench) subScales(w *ref.Matrix, exact bool) {
	for i := range w.Subs {
		w.Subs[i] = uint8(b.r.Uint32())
		if exact {
			at := i * w.Format.Group / w.Format.ScaleGroup()
			w.Subs[i], w.Scales[at] = 1<<(at%7), ref.F32ToF16(float32(math.Exp2(-float64(at%7))))
		}
	}
	for i := range w.SubOffsets {
		w.SubOffsets[i] = uint8(b.r.Uint32())
		if exact {
			w.SubOffsets[i] &= 1
		}
	}
}

// exactActs are integer activations with scale 1.
func (b *bench) exactActs(m int) *ref.Acts {
	a := &ref.Acts{Act: b.act(), M: m, K: b.p.K}
	limit := max(b.exactLimit(), 1)
	for range m {
		codes, floats := make([]int32, a.K), make([]float32, a.K)
		for k := range codes {
			codes[k] = int32(b.r.IntN(2*limit+1) - limit)
			floats[k] = float32(codes[k])
		}
		if a.Act.Arith == kernel.F32 {
			a.Floats = append(a.Floats, floats)
			continue
		}
		scales := make([]float32, a.Act.Groups(a.K))
		for g := range scales {
			scales[g] = 1
		}
		a.Codes, a.Scales = append(a.Codes, codes), append(a.Scales, scales)
	}
	return a
}
