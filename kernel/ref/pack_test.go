package ref

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tilewright/tilewright/kernel"
	"pgregory.net/rapid"
)

var formats = []kernel.Format{
	kernel.FormatQ4_0, kernel.FormatQ4_1, kernel.FormatQ8_0, kernel.FormatF16, kernel.FormatBF16, kernel.FormatF32,
	kernel.Asym(16), kernel.Asym(64), kernel.Asym(128),
	{Bits: 4, Group: 64, Bias: 8, Offset: true, Scale: kernel.ScaleBF16},
	{Bits: 8, Group: 128, Bias: 128, Scale: kernel.ScaleBF16},
	{Bits: 8, Group: 16, Offset: true, Scale: kernel.ScaleF16},
	{Bits: 6, Group: 64, Bias: 32, Offset: true, Scale: kernel.ScaleBF16},
	{Bits: 8, Group: 32, Bias: 128, Super: kernel.SuperQ6K, Scale: kernel.ScaleF16},
	kernel.FormatQ2_K, kernel.FormatQ3_K, kernel.FormatQ4_K, kernel.FormatQ5_K, kernel.FormatQ6_K,
}

func randomMatrix(r *rand.Rand, f kernel.Format, n, k int) *Matrix {
	w, err := NewMatrix(f, n, k)
	if err != nil {
		panic(err)
	}
	for i := range w.Codes {
		w.Codes[i] = uint8(r.Uint32N(1 << f.Bits))
	}
	for i := range w.Scales {
		w.Scales[i] = F32ToScale(f.Scale, float32(r.NormFloat64()))
	}
	for i := range w.Offsets {
		w.Offsets[i] = F32ToScale(f.Scale, float32(r.NormFloat64()))
	}
	for i := range w.Subs {
		w.Subs[i] = uint8(r.Uint32())
	}
	for i := range w.SubOffsets {
		w.SubOffsets[i] = uint8(r.Uint32())
	}
	for i := range w.Floats {
		v := float32(r.NormFloat64())
		if f.Bits == 16 {
			v = ScaleToF32(f.Scale, F32ToScale(f.Scale, v))
		}
		w.Floats[i] = v
	}
	return w
}

func TestPackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(formats).Draw(t, "format")
		l := kernel.Layout{Lanes: rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "lanes"), Cols: rapid.IntRange(1, 3).Draw(t, "cols")}
		n, k := rapid.IntRange(1, 70).Draw(t, "n"), 256*rapid.IntRange(1, 2).Draw(t, "k/256")
		w := randomMatrix(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), f, n, k)
		codes, scales, err := Pack(l, w)
		if err != nil {
			t.Fatal(err)
		}
		if len(codes)+len(scales) != l.TensorBytes(f, n, k) {
			t.Fatalf("%d + %d bytes, want %d", len(codes), len(scales), l.TensorBytes(f, n, k))
		}
		back, err := Unpack(l, f, n, k, codes, scales)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, back); d != "" {
			t.Fatal(d)
		}
		c := rapid.IntRange(0, n-1).Draw(t, "channel")
		got := make([]float32, k)
		if err := Row(got, l, f, codes, scales, c); err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			want := w.At(c, i)
			if !(math.Abs(float64(v)-want) <= 2e-7*rowSize(w, c, i)) {
				t.Fatalf("channel %d, position %d: %g, want %g", c, i, v, want)
			}
		}
	})
}

// rowSize is the sum of the magnitudes of a weight's terms: its product and its sum are rounded to float32.
func rowSize(w *Matrix, n, k int) float64 {
	if w.Format.IsFloat() {
		return math.Abs(w.At(n, k))
	}
	_, m := w.Scale(n, k)
	return math.Abs(w.At(n, k)-m) + math.Abs(m)
}

// TestPadding checks the codes and scales of channels past N.
func TestPadding(t *testing.T) {
	l := kernel.Layout{Lanes: 16, Cols: 2}
	for _, f := range formats {
		w := randomMatrix(rand.New(rand.NewPCG(1, 1)), f, 33, 256)
		codes, scales, err := Pack(l, w)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Unpack(l, f, 64, 256, codes, scales)
		if err != nil {
			t.Fatal(err)
		}
		for n := 33; n < 64; n++ {
			for k := range 256 {
				if v := all.At(n, k); v != 0 || !f.IsFloat() && int(all.Codes[n*256+k]) != f.Bias {
					t.Fatalf("%s: padded channel %d, position %d: weight %g", f, n, k, v)
				}
			}
		}
	}
}

func TestPackRefuses(t *testing.T) {
	good := func() *Matrix { return randomMatrix(rand.New(rand.NewPCG(1, 1)), kernel.FormatQ4_1, 4, 64) }
	for name, spoil := range map[string]func(*Matrix){
		"five bits":    func(w *Matrix) { w.Format.Bits = 5 },
		"super scale":  func(w *Matrix) { w.Format.Super = kernel.SuperQ4K },
		"K of 0":       func(w *Matrix) { w.K = 0 },
		"ragged K":     func(w *Matrix) { w.K = 48 },
		"few codes":    func(w *Matrix) { w.Codes = w.Codes[1:] },
		"few scales":   func(w *Matrix) { w.Scales = w.Scales[1:] },
		"no offsets":   func(w *Matrix) { w.Offsets = nil },
		"code too big": func(w *Matrix) { w.Codes[7] = 16 },
	} {
		w := good()
		spoil(w)
		if _, _, err := Pack(kernel.Layout{Lanes: 4, Cols: 1}, w); err == nil {
			t.Errorf("%s: packed", name)
		}
	}
	for _, f := range []kernel.Format{kernel.FormatQ4_K, kernel.FormatQ6_K} {
		if _, err := NewMatrix(f, 4, 128); !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("half a super-group of %s: %v, want ErrUnsupported", f, err)
		}
	}
	if err := Row(make([]float32, 64), kernel.Layout{Lanes: 4, Cols: 1}, kernel.FormatQ4_1, make([]byte, 64), make([]byte, 64), 4); err == nil {
		t.Error("Row read past the tensor")
	}
}
