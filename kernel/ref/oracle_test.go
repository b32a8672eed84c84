package ref

import (
	"math"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"pgregory.net/rapid"
)

func near(t *testing.T, name string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: got %.12g, want %.12g", name, got, want)
	}
}

// TestActivations compares with values of other sources: PyTorch's documentation and tables of Phi.
func TestActivations(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"silu(0)", SiLU(0), 0}, {"silu(1)", SiLU(1), 0.7310585786}, {"silu(-2)", SiLU(-2), -0.2384058440},
		{"gelu(1)", GELU(1), 0.8413447461}, {"gelu(-1)", GELU(-1), -0.1586552539}, {"gelu(0)", GELU(0), 0},
		{"gelu tanh(1)", GELUTanh(1), 0.8411919906}, {"gelu tanh(-3)", GELUTanh(-3), -0.0036373920817729943},
		{"silu(1000)", SiLU(1000), 1000}, {"silu(-1000)", SiLU(-1000), 0}, {"gelu(-40)", GELU(-40), 0},
	} {
		near(t, c.name, c.got, c.want, 1e-9)
	}
}

func TestNormAndRotation(t *testing.T) {
	n := RMSNorm([]float64{3, 4}, []float64{1, 2}, 0)
	near(t, "rmsnorm", n[0], 3/math.Sqrt(12.5), 1e-15)
	near(t, "rmsnorm weighted", n[1], 8/math.Sqrt(12.5), 1e-15)
	near(t, "rmsnorm of zero", RMSNorm([]float64{0}, nil, 1e-6)[0], 0, 0)

	r := Rotate([]float64{1, 2, 3, 4, 5}, []float64{0, 1}, []float64{1, 0})
	for i, want := range []float64{-3, 2, 1, 4, 5} { // the first pair turns by 90 degrees, the second not
		near(t, "rotate", r[i], want, 0)
	}
}

func TestAttentionOracle(t *testing.T) {
	q := [][]float64{{math.Log(2), 0}, {1, 1}}
	k := [][]float64{{9, 9}, {1, 5}, {0, -5}}
	v := [][]float64{{100, 100}, {3, 0}, {0, 6}}
	out := Attention(q, k, v, []int{1, 2}, []int{3, 2})
	near(t, "row 0", out[0][0], 2, 1e-12) // weights 2/3 and 1/3
	near(t, "row 0", out[0][1], 2, 1e-12)
	near(t, "row that sees nothing", out[1][0], 0, 0)
}

func TestLinearOracle(t *testing.T) {
	f := kernel.Format{Bits: 4, Group: 16, Bias: 8, Offset: true, Scale: kernel.ScaleF16}
	w, err := NewMatrix(f, 1, 16)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, 16)
	for k := range x {
		w.Codes[k], x[k] = uint8(k), 1
	}
	w.Scales[0], w.Offsets[0] = F32ToF16(0.5), F32ToF16(-0.25)
	near(t, "0.5 * sum(q - 8) - 0.25 * 16", Linear(w, [][]float64{x})[0][0], 0.5*(120-128)-4, 0)
}

// TestQuantizeRule checks the rule's promises on any finite row.
func TestQuantizeRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		act := kernel.Act{Arith: rapid.SampledFrom([]kernel.Arith{kernel.A8, kernel.A16}).Draw(t, "arith"), Group: 16, MR: 1}
		x := rapid.SliceOfN(rapid.Float32(), 32, 32).Draw(t, "x")
		a := Quantize(act, [][]float32{x})
		for i, v := range x {
			q, s := a.Codes[0][i], a.Scales[0][i/16]
			if max(q, -q) > int32(act.Arith.QMax()) {
				t.Fatalf("element %d: code %d", i, q)
			}
			if s == 0 {
				if q != 0 || math.Abs(float64(v)) >= float64(act.Arith.QMax())*0x1p-126 {
					t.Fatalf("element %d: %g flushed to zero, code %d", i, v, q)
				}
				continue
			}
			// amax/s may exceed QMax by the rounding of s.
			if d := math.Abs(float64(q)*float64(s) - float64(v)); d > float64(s)*(0.5+float64(act.Arith.QMax())*0x1p-23) {
				t.Fatalf("element %d: %g became %d * %g", i, v, q, s)
			}
		}
	})
}

func TestQuantizeNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x := make([]float32, 32)
		x[3], x[20] = float32(bad), 2
		a := Quantize(kernel.Act{Arith: kernel.A8, Group: 16, MR: 1}, [][]float32{x})
		if s := a.Scales[0][0]; s == s {
			t.Errorf("%g: scale %g, want NaN", bad, s)
		}
		if a.Codes[0][20] != 127 {
			t.Errorf("%g spoiled the next group", bad)
		}
	}
}
