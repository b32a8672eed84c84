package x86

import (
	"context"
	"maps"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// realShapes are N and K of matrices of models, small and large, and of some that are out of proportion.
var realShapes = [][2]int{{1, 512}, {49152, 576}, {151936, 1024}, {13312, 2048}, {2048, 6656}, {2560, 2560}, {4096, 14336}, {96, 65536}, {32003, 4096}}

// Defaults are configurations of their space and can be emitted, whatever the shape and the cache, which
// moves nothing but the block.
func TestDefaultsOfRealShapes(t *testing.T) {
	for i, s := range isas {
		t.Run(s.isa.Name, func(t *testing.T) {
			t.Parallel()
			emitted := map[string]bool{}
			for j, small := range linearProblems() {
				for k, shape := range realShapes {
					p := small
					p.N, p.K = shape[0], shape[1]
					if (i+j+k)%every(61) != 0 || p.K%p.Format.Unit() != 0 {
						continue
					}
					base := spaceOf(t, s.isa, p).Default()
					for _, l2 := range []int64{1, 256, 512, 1024, 1280, 2048, 3072} {
						space, err := testBackend(s.isa).Space(context.Background(), s.isa.Features.WithCache(2, l2<<10), p)
						if err != nil {
							t.Fatalf("%s, %d KiB: %v", p, l2, err)
						}
						c := space.Default()
						if err := space.Check(c); err != nil {
							t.Fatalf("%s, %d KiB: %v", p, l2, err)
						}
						delete(c, parBlock)
						b := maps.Clone(base)
						if delete(b, parBlock); !maps.Equal(c, b) {
							t.Fatalf("%s, %d KiB: %s, without caches %s", p, l2, c, b)
						}
					}
					q := p
					q.N, q.M = 0, min(p.M, 9)
					if key := q.String() + p.Layout.String() + base.String(); !emitted[key] {
						emitted[key] = true
						code, err := emitLinear(s.isa, p, base)
						if err != nil {
							t.Fatalf("%s [%s]: %v", p, base, err)
						}
						if x := code.Exec; x.ScratchBytes > 16*32*64 || x.NC%max(1, x.Streams) != 0 || x.Chunk%max(1, x.Streams) != 0 {
							t.Fatalf("%s [%s]: %+v", p, base, x)
						}
					}
				}
			}
			t.Logf("%d emitted", len(emitted))
		})
	}
}

// Decode by four panels, as large matrices have it by default, on numbers of panels that four does not
// divide and in every layout.
func TestFourStreams(t *testing.T) {
	signed := kernel.Format{Bits: 8, Group: 128, Bias: 128, Scale: kernel.ScaleF16}
	biased := kernel.Format{Bits: 4, Group: 64, Bias: 8, Scale: kernel.ScaleBF16}
	for _, f := range []kernel.Format{kernel.FormatQ4_0, kernel.Asym(128), kernel.FormatQ8_0, signed, biased} {
		for _, cols := range []int{1, 2, 4} {
			p := kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 1, N: 1 << 20, K: 8192, Format: f, Layout: kernel.Layout{Lanes: 16, Cols: cols}}
			c := spaceOf(t, AVX2, p).Default()
			if c[parStreams] != 4 {
				t.Errorf("%s: %s, want four streams", p, c)
			}
			p.N, p.K = 16*cols*7-3, 512
			if err := spaceOf(t, AVX2, p).Check(c); err != nil {
				t.Fatal(err)
			}
			if a := emit(t, AVX2, p, c); isas[0].native {
				kerneltest.Test(t, &guardPages{}, load(t, a), a)
			}
		}
	}
}
