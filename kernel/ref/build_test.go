package ref

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

func artifact(p kernel.Problem, mr int) *kernel.Artifact {
	return &kernel.Artifact{Kind: kernel.KindGo, Key: kernel.ArtifactKey{Problem: p}, Exec: kernel.Exec{MR: mr}}
}

func linearProblem(f kernel.Format, a kernel.Arith, n, k int) kernel.Problem {
	return kernel.Problem{Op: kernel.OpLinear, Arith: a, M: 1, N: n, K: k, Format: f,
		Layout: kernel.Layout{Lanes: 16, Cols: 1}, Act: kernel.Act{Arith: a, Group: f.Group}}
}

func TestBuildRefuses(t *testing.T) {
	good := linearProblem(kernel.FormatQ4_0, kernel.A8, 16, 32)
	if _, err := Build(artifact(good, 1)); err != nil {
		t.Fatal(err)
	}
	code := artifact(good, 1)
	code.Kind = kernel.KindCode
	panel := artifact(good, 1)
	panel.Exec.Panel = true
	for name, a := range map[string]*kernel.Artifact{
		"machine code": code, "a panel": panel, "no rows": artifact(good, 0), "too many rows": artifact(good, MaxMR+1),
	} {
		if _, err := Build(a); !errors.Is(err, kernel.ErrArtifact) {
			t.Errorf("%s: %v, want ErrArtifact", name, err)
		}
	}
	for name, p := range map[string]kernel.Problem{
		"integer arithmetic on floats": linearProblem(kernel.FormatF16, kernel.A8, 16, 32),
		"rope of odd dims":             {Op: kernel.OpRope, Dim: 64, Rot: 33, Elem: kernel.ElemF16},
		"rope into int8":               {Op: kernel.OpRope, Dim: 64, Rot: 32, Elem: "i8"},
		"attention of no rows":         {Op: kernel.OpAttn, Dim: 64, Elem: kernel.ElemF16},
		"packing floats":               {Op: kernel.OpPack, Format: kernel.FormatF16},
		"glu without a gate":           {Op: kernel.OpQuant, K: 32, Pre: kernel.PreGLU, Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 1}},
		"quant without a group":        {Op: kernel.OpQuant, K: 32, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, MR: 1}},
		"quant of ragged K":            {Op: kernel.OpQuant, K: 40, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 1}},
		"no op":                        {},
	} {
		if _, err := Build(artifact(p, 1)); !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
}

// BenchmarkLinear reports the multiply-accumulates per second of the portable kernels.
func BenchmarkLinear(b *testing.B) {
	const n, k = 512, 1024
	for _, c := range []struct {
		f kernel.Format
		a kernel.Arith
	}{
		{kernel.FormatQ4_0, kernel.A8}, {kernel.FormatQ4_0, kernel.A16}, {kernel.FormatQ4_0, kernel.F32},
		{kernel.FormatQ8_0, kernel.A8}, {kernel.FormatF16, kernel.F32},
	} {
		for _, mr := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/%s/mr%d", c.f, c.a, mr), func(b *testing.B) {
				p := linearProblem(c.f, c.a, n, k)
				fns, err := Build(artifact(p, mr))
				if err != nil {
					b.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				codes, scales, err := Pack(p.Layout, randomMatrix(r, c.f, n, k))
				if err != nil {
					b.Fatal(err)
				}
				x := make([][]float32, mr)
				for m := range x {
					x[m] = make([]float32, k)
					for i := range x[m] {
						x[m][i] = float32(r.NormFloat64())
					}
				}
				ac, as, sums := Quantize(kernel.Act{Arith: c.a, Group: max(c.f.Group, 32), MR: mr}, x).Pack()
				out := make([]float32, mr*n)
				args := kernel.LinearArgs{W: unsafe.Pointer(&codes[0]), S: unsafe.Pointer(unsafe.SliceData(scales)),
					A: unsafe.Pointer(&ac[0]), AScale: unsafe.Pointer(&as[0]), ASum: unsafe.Pointer(&sums[0]),
					Out: unsafe.Pointer(&out[0]), Panels: n / 16, LDC: n * 4}
				for b.Loop() {
					fns[kernel.EntryMain](unsafe.Pointer(&args))
				}
				b.ReportMetric(float64(mr*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}

// BenchmarkRow is the look-up of one embedding.
func BenchmarkRow(b *testing.B) {
	const k = 2048
	l := kernel.Layout{Lanes: 16, Cols: 1}
	for _, f := range []kernel.Format{kernel.FormatQ4_1, kernel.FormatQ8_0, kernel.FormatF16} {
		b.Run(f.String(), func(b *testing.B) {
			codes, scales, err := Pack(l, randomMatrix(rand.New(rand.NewPCG(1, 1)), f, 64, k))
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]float32, k)
			for i := 0; b.Loop(); i++ {
				if err := Row(dst, l, f, codes, scales, i%64); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
