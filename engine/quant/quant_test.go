package quant

import (
	"math"
	"testing"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

type blockFile struct {
	typ  gguf.Type
	name string
	src  []byte
	want []float32
}

// blockFiles reads the shared blocks of every type with their exact values.
func blockFiles(t testing.TB) []blockFile {
	var out []blockFile
	for _, b := range gguftest.SharedBlocks(t) {
		out = append(out, blockFile{gguf.Type(b.Type), b.Name, b.Data, b.Want})
	}
	return out
}

func sameBits(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("weight %d is %v (%08x), want %v (%08x)", i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

func TestDequantMatchesGGML(t *testing.T) {
	for _, f := range blockFiles(t) {
		t.Run(f.name, func(t *testing.T) {
			got := make([]float32, len(f.want))
			if err := Dequant(f.typ, f.src, got); err != nil {
				t.Fatal(err)
			}
			sameBits(t, got, f.want)
		})
	}
}

// TestCodesReproduce: packed and unpacked, the codes and scales of every type give every weight, bit
// for bit.
func TestCodesReproduce(t *testing.T) {
	for _, f := range blockFiles(t) {
		if f.typ.IsFloat() {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			k := f.typ.Block()
			kf, err := FormatFor(f.typ, k)
			if err != nil {
				t.Fatal(err)
			}
			m, err := ref.NewMatrix(kf, len(f.want)/k, k)
			if err != nil {
				t.Fatal(err)
			}
			if err := Codes(f.typ, f.src, m.Codes, m.ScaleSet); err != nil {
				t.Fatal(err)
			}
			l := kernel.Layout{Lanes: 16, Cols: 2}
			codes, scales, err := ref.Pack(l, m)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(f.want))
			for n := range m.N {
				if err := ref.Row(got[n*k:(n+1)*k], l, kf, codes, scales, n); err != nil {
					t.Fatal(err)
				}
			}
			sameValues(t, got, f.want)
		})
	}
}

// sameValues is sameBits, but that zeros may differ in sign: a dot product cannot tell.
func sameValues(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if got[i] == 0 && want[i] == 0 {
			got[i] = want[i]
		}
	}
	sameBits(t, got, want)
}

func TestUnusableInput(t *testing.T) {
	if _, err := FormatFor(gguf.Q4_K, 288); err == nil {
		t.Error("rows of 288 in blocks of 256")
	}
	if _, err := FormatFor(16, 256); err == nil {
		t.Error("IQ2_XXS accepted")
	}
	b := make([]byte, 18)
	le.PutUint16(b, 0x7c00)
	if err := Codes(gguf.Q4_0, b, make([]uint8, 32), kernel.FormatQ4_0.NewScaleSet(32)); err == nil {
		t.Error("an infinite scale accepted")
	}
	if err := Codes(gguf.Q4_0, b[:17], make([]uint8, 32), kernel.FormatQ4_0.NewScaleSet(32)); err == nil {
		t.Error("half a block accepted")
	}
	if err := Dequant(gguf.Q4_0, b, make([]float32, 31)); err == nil {
		t.Error("a short destination accepted")
	}
	f := make([]byte, 8)
	le.PutUint32(f[4:], math.Float32bits(float32(math.NaN())))
	if err := CheckFinite(gguf.F32, f); err == nil {
		t.Error("NaN accepted")
	}
}

func BenchmarkCodes(b *testing.B) {
	for _, t := range []gguf.Type{gguf.Q4_0, gguf.Q4_1, gguf.Q8_0, gguf.Q5_0, gguf.Q4_K, gguf.Q6_K, gguf.Q3_K, gguf.IQ4_NL} {
		b.Run(t.String(), func(b *testing.B) {
			const k = 4096
			f, _ := FormatFor(t, k)
			src, q, s := make([]byte, t.RowBytes(k)), make([]uint8, k), f.NewScaleSet(k)
			for b.Loop() {
				if err := Codes(t, src, q, s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*k/b.Elapsed().Seconds()/1e9, "Gweights/s")
		})
	}
}
