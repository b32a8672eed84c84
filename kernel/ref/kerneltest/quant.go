package kerneltest

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Quant checks an OpQuant artifact.
func Quant(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

// quantCases make element i of X; Y and W are random.
var quantCases = []struct {
	name string
	x    func(b *bench, i int) float32
}{
	{"random", func(b *bench, _ int) float32 { return float32(b.r.NormFloat64()) }},
	{"large", func(b *bench, _ int) float32 { return float32(b.r.NormFloat64() * 1e4) }},
	{"zero", func(*bench, int) float32 { return 0 }},
	{"zero groups", func(b *bench, i int) float32 { return float32(b.r.NormFloat64()) * float32(i/128%2) }},
	{"outliers", func(b *bench, i int) float32 {
		if i%61 == 7 {
			return -500
		}
		return float32(b.r.NormFloat64())
	}},
	{"largest at the ends", func(b *bench, i int) float32 {
		if g := max(b.p.Act.Group, 1); i%g == 0 || i%g == g-1 {
			return 8 - 16*float32(i%2)
		}
		return float32(b.r.Float64())
	}},
	{"tiny", func(b *bench, _ int) float32 { return float32(b.r.NormFloat64()) * 0x1p-130 }},
	{"ties", func(b *bench, i int) float32 {
		qmax := float32(b.p.Act.Arith.QMax())
		if i%max(b.p.Act.Group, 1) == 3 {
			return qmax
		}
		return float32(i%101) - 50.5
	}},
	{"NaN", func(b *bench, i int) float32 {
		if i == b.p.K/2 {
			return float32(math.NaN())
		}
		return float32(b.r.NormFloat64())
	}},
	{"Inf", func(b *bench, i int) float32 {
		if i == 1 {
			return float32(math.Inf(-1))
		}
		return float32(b.r.NormFloat64())
	}},
}

func (b *bench) quant() []error {
	var errs []error
	for _, c := range quantCases {
		for _, m := range []int{0, b.p.Act.MR - 1} {
			b.try(&errs, fmt.Sprintf("%s, row %d", c.name, m), func() error {
				x := make([]float32, b.p.K)
				for i := range x {
					x[i] = c.x(b, i)
				}
				return b.quantCase(x, m, c.name == "ties" && b.p.Pre == kernel.PreNone)
			})
		}
	}
	return errs
}

func (b *bench) quantCase(x []float32, m int, ties bool) error {
	p, act, eps := b.p, b.p.Act, float32(1e-5)
	y, w := b.normals(p.K, 1), b.normals(p.K, 1)
	xBuf, yBuf, wBuf, epsBuf := put(b, x), put(b, y), put(b, w), put(b, []float32{eps})
	groups := act.Groups(p.K)
	aBuf, sBuf, sumBuf := b.fill(act.BlockBytes(p.K)), b.fill(groups*act.MR*4), b.fill(groups*act.MR*4)
	tmp := b.fill((b.e.ScratchBytes + 63) &^ 63)
	b.call(kernel.EntryMain, xBuf.Addr, yBuf.Addr, wBuf.Addr, aBuf.at(4*m), sBuf.at(4*m), sumBuf.at(4*m), epsBuf.Addr, tmp.Addr)
	if b.err != nil {
		return b.err
	}
	in := x
	if p.Pre == kernel.PreAddNorm {
		in = make([]float32, p.K)
		for i := range in {
			in[i] = x[i] + y[i]
		}
	}
	for _, err := range []error{
		unchanged("X (or its sum)", xBuf, in), unchanged("Y", yBuf, y), unchanged("W", wBuf, w),
		onlyRow("A", aBuf, act.MR, m), onlyRow("Scale", sBuf, act.MR, m), onlyRow("Sum", sumBuf, act.MR, m),
	} {
		if err != nil {
			return err
		}
	}
	want, tol := expectRow(p, in, y, w, eps)
	if act.Arith == kernel.F32 {
		return floatRow(act, m, want, tol, aBuf, sumBuf)
	}
	return codeRow(act, m, want, tol, aBuf, sBuf, sumBuf, ties)
}

// onlyRow reports a write to a row other than m of an array of dwords [..][mr].
func onlyRow(name string, buf Buffer, mr, m int) error {
	for i, v := range as[uint32](buf) {
		if i%mr != m && v != 0xffffffff {
			return fmt.Errorf("%s: wrote to row %d of the block, told to write row %d", name, i%mr, m)
		}
	}
	return nil
}

// expectRow is the row before quantisation and the error that its computation in f32 may have.
func expectRow(p kernel.Problem, x, y, w []float32, eps float32) (want, tol []float64) {
	tol = make([]float64, len(x))
	switch p.Pre {
	case kernel.PreNone:
		return wide(x), tol
	case kernel.PreGLU:
		want = make([]float64, len(x))
		for i, v := range wide(x) {
			up := float64(y[i])
			want[i] = ref.Gate(p.Gate, v) * up
			tol[i] = 1e-5*math.Abs(want[i]) + 3e-6*math.Abs(up)*(1+min(math.Abs(v), 10))
		}
		return want, tol
	}
	want = ref.RMSNorm(wide(x), wide(w), float64(eps))
	for i, v := range want {
		tol[i] = 4e-6 * math.Abs(v)
	}
	return want, tol
}

func floatRow(act kernel.Act, m int, want, tol []float64, aBuf, sumBuf Buffer) error {
	got, sums := as[float32](aBuf), as[float32](sumBuf)
	var total, mass, slack float64
	for i, v := range want {
		g := float64(got[i*act.MR+m])
		total, mass, slack = total+v, mass+math.Abs(v), slack+tol[i]
		if v-v != 0 {
			if g-g == 0 {
				return fmt.Errorf("element %d: got %g, want %g", i, g, v)
			}
		} else if err := within(g, v, tol[i]+1e-30); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if act.Group == 0 || (i+1)%act.Group != 0 {
			continue
		}
		if s := float64(sums[i/act.Group*act.MR+m]); total-total == 0 {
			if err := within(s, total, slack+1e-5*mass+1e-30); err != nil {
				return fmt.Errorf("sum of group %d: %w", i/act.Group, err)
			}
		} else if s-s == 0 {
			return fmt.Errorf("sum of group %d: got %g, want %g", i/act.Group, s, total)
		}
		total, mass, slack = 0, 0, 0
	}
	return nil
}

func codeRow(act kernel.Act, m int, want, tol []float64, aBuf, sBuf, sumBuf Buffer, ties bool) error {
	codes := unpackCodes(act, as[uint32](aBuf), m, len(want))
	scales, sums := as[float32](sBuf), as[int32](sumBuf)
	for g := range act.Groups(len(want)) {
		lo, hi := g*act.Group, (g+1)*act.Group
		s, sum := scales[g*act.MR+m], sums[g*act.MR+m]
		if err := codeGroup(act, s, sum, codes[lo:hi], want[lo:hi], tol[lo:hi], ties); err != nil {
			return fmt.Errorf("group %d (scale %g): %w", g, s, err)
		}
	}
	return nil
}

func codeGroup(act kernel.Act, s float32, sum int32, codes []int32, want, tol []float64, ties bool) error {
	qmax := float64(act.Arith.QMax())
	var amax, slack float64
	finite := true
	for i, v := range want {
		finite = finite && v-v == 0
		amax, slack = max(amax, math.Abs(v)), max(slack, tol[i])
	}
	if !finite {
		if s-s == 0 {
			return fmt.Errorf("an element is not finite, but the scale is")
		}
		return nil
	}
	if err := within(float64(s)*qmax, amax, slack+4e-7*amax+1e-33); err != nil {
		return fmt.Errorf("scale*QMax: %w", err)
	}
	var total int32
	for i, q := range codes {
		total += q
		if math.Abs(float64(q)) > qmax || amax == 0 && q != 0 {
			return fmt.Errorf("element %d: code %d (amax %g)", i, q, amax)
		}
		half := float64(s) * (0.5 + 1e-6*qmax)
		if err := within(float64(q)*float64(s), want[i], half+slack+1e-33); err != nil {
			return fmt.Errorf("element %d, code %d: %w", i, q, err)
		}
		if r := math.RoundToEven(want[i]); ties && float64(q) != r {
			return fmt.Errorf("element %d: %g became %d, to nearest even it is %g", i, want[i], q, r)
		}
	}
	if sum != total {
		return fmt.Errorf("sum is %d, codes sum to %d", sum, total)
	}
	return nil
}

// unpackCodes reads the codes of row m of a block.
func unpackCodes(act kernel.Act, packed []uint32, m, k int) []int32 {
	out := make([]int32, k)
	for i := range out {
		if act.Arith == kernel.A8 {
			out[i] = int32(int8(packed[i/4*act.MR+m] >> (i % 4 * 8)))
			continue
		}
		out[i/8*8+kernel.A16Order[i%8]] = int32(int16(packed[i/2*act.MR+m] >> (i % 2 * 16)))
	}
	return out
}
