package quant

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

func TestQuantizeError(t *testing.T) {
	formats := []kernel.Format{kernel.Asym(32), kernel.Asym(128), kernel.FormatQ8_0, kernel.FormatQ4_0,
		{Bits: 4, Group: 64, Offset: true, Scale: kernel.ScaleBF16}}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(formats).Draw(t, "format")
		x := rapid.SliceOfN(rapid.Float32Range(-100, 100), 2*f.Group, 2*f.Group).Draw(t, "x")
		q, s := make([]uint8, len(x)), f.NewScaleSet(len(x))
		if err := ref.QuantizeRow(f, x, q, s); err != nil {
			t.Fatal(err)
		}
		y := make([]float32, len(x))
		for g := range s.Scales {
			scale, off := ref.ScaleToF32(f.Scale, s.Scales[g]), float32(0)
			if f.Offset {
				off = ref.ScaleToF32(f.Scale, s.Offsets[g])
			}
			eps := 0x1p-11 // of the scale type
			if f.Scale == kernel.ScaleBF16 {
				eps = 0x1p-8
			}
			expand(f, q[g*f.Group:], scale, off, y)
			mn, mx := slices.Min(x[g*f.Group:(g+1)*f.Group]), slices.Max(x[g*f.Group:(g+1)*f.Group])
			bound := float64(scale)/2 + 1.01*eps*(math.Abs(float64(mn))+2*float64(max(mx, -mn))) + 1e-7
			for i := range f.Group {
				if e := math.Abs(float64(y[i] - x[g*f.Group+i])); !(e <= bound) {
					t.Fatalf("weight %d: %v became %v, bound %v", i, x[g*f.Group+i], y[i], bound)
				}
			}
		}
	})
}

func TestQuantizeEdges(t *testing.T) {
	f := kernel.Asym(32)
	q, s := make([]uint8, 32), f.NewScaleSet(32)
	x := make([]float32, 32)
	for i := range x {
		x[i] = -0.5
	}
	if err := ref.QuantizeRow(f, x, q, s); err != nil || s.Scales[0] != 0 || ref.F16ToF32(s.Offsets[0]) != -0.5 || q[7] != 0 {
		t.Errorf("constant group: %v, s %v, m %v, q %v", err, s.Scales, ref.F16ToF32(s.Offsets[0]), q)
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, math.MaxFloat32} {
		x[3] = bad
		for _, f := range []kernel.Format{f, kernel.FormatQ8_0} {
			if err := ref.QuantizeRow(f, x, q, f.NewScaleSet(32)); err == nil {
				t.Errorf("%s: %v accepted", f, bad)
			}
		}
	}
	if err := ref.QuantizeRow(kernel.FormatF16, x, q, s); err == nil {
		t.Error("a float format accepted")
	}
}

// TestRequantisedReference compares with the quantiser of the shared fidelity runs on real weights.
func TestRequantisedReference(t *testing.T) {
	raw, err := os.ReadFile(gguftest.Shared(t, "models/smollm2-135m/fidelity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		R struct {
			Down  []float64 `json:"ffn_down0_row0_first8"`
			Embed []float64 `json:"embed_row504_first8"`
		} `json:"requantised_reference"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(gguftest.Shared(t, "models/smollm2-135m/model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		tensor string
		row    int
		want   []float64
	}{{"blk.0.ffn_down.weight", 0, want.R.Down}, {"token_embd.weight", 504, want.R.Embed}} {
		got := requantised(t, f.Tensor(c.tensor), c.row)
		for i, w := range c.want {
			if math.Abs(float64(got[i])-w) > 1e-5*math.Abs(w) {
				t.Errorf("%s row %d: weight %d is %v, want %v", c.tensor, c.row, i, got[i], w)
			}
		}
		if len(c.want) != 8 {
			t.Errorf("%s: %d reference weights", c.tensor, len(c.want))
		}
	}
}

// requantised returns the first group of a row quantised to 4 bits in groups of 64.
func requantised(t *testing.T, tensor *gguf.Tensor, row int) []float32 {
	f, x := kernel.Asym(64), make([]float32, tensor.K())
	if err := Dequant(tensor.Type, tensor.Row(row), x); err != nil {
		t.Fatal(err)
	}
	q, s := make([]uint8, len(x)), f.NewScaleSet(len(x))
	if err := ref.QuantizeRow(f, x, q, s); err != nil {
		t.Fatal(err)
	}
	expand(f, q, ref.F16ToF32(s.Scales[0]), ref.F16ToF32(s.Offsets[0]), x)
	return x[:64]
}

func BenchmarkQuantize(b *testing.B) {
	const k = 4096
	x := make([]float32, k)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for _, f := range []kernel.Format{kernel.Asym(32), kernel.FormatQ8_0} {
		b.Run(f.String(), func(b *testing.B) {
			q, s := make([]uint8, k), f.NewScaleSet(k)
			for b.Loop() {
				ref.QuantizeRow(f, x, q, s)
			}
			b.ReportMetric(float64(b.N)*k/b.Elapsed().Seconds()/1e9, "Gweights/s")
		})
	}
}
