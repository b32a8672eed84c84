package kernel_test

import (
	"slices"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

func TestMBuckets(t *testing.T) {
	for _, c := range []struct{ m, bucket, point int }{
		{1, 0, 1}, {2, 1, 4}, {4, 1, 4}, {5, 2, 4}, {8, 2, 4}, {9, 3, 16}, {16, 3, 16}, {17, 4, 16}, {32, 4, 16},
		{33, 5, 64}, {64, 5, 64}, {65, 6, 64}, {128, 6, 64}, {129, 7, 512}, {512, 7, 512}, {1 << 20, 7, 512},
	} {
		if b, p := kernel.MBucket(c.m), kernel.MPoint(c.m); b != c.bucket || p != c.point {
			t.Errorf("M = %d: bucket %d, tuned at %d; want %d, %d", c.m, b, p, c.bucket, c.point)
		}
	}
	for _, p := range kernel.MPoints {
		if kernel.MPoint(p) != p {
			t.Errorf("tuning point %d belongs to point %d", p, kernel.MPoint(p))
		}
	}
}

// TestA16Order checks that the order is what shifts of a dword of nibbles by 0, 4, 8 and 12 under
// the mask 0x000f000f give.
func TestA16Order(t *testing.T) {
	l := kernel.Layout{Lanes: 1, Cols: 1}
	for i, k := range kernel.A16Order {
		off, shift := l.CodeAt(kernel.FormatQ4_0, 0, k)
		if bit := off*8 + int(shift); bit != i/2*4+i%2*16 {
			t.Errorf("place %d holds k = %d, which lies at bit %d", i, k, bit)
		}
	}
	sorted := kernel.A16Order
	slices.Sort(sorted[:])
	if sorted != [8]int{0, 1, 2, 3, 4, 5, 6, 7} {
		t.Errorf("%v is no permutation", kernel.A16Order)
	}
}

func TestActSizes(t *testing.T) {
	for _, c := range []struct {
		arith       kernel.Arith
		bytes, qmax int
	}{{kernel.A8, 1, 127}, {kernel.A16, 2, 32767}, {kernel.F32, 4, 0}} {
		a := kernel.Act{Arith: c.arith, Group: 32, MR: 4}
		if c.arith.QMax() != c.qmax || a.BlockBytes(64) != 64*4*c.bytes || a.Groups(64) != 2 {
			t.Errorf("%+v: QMax %d, block %d bytes, %d groups", a, c.arith.QMax(), a.BlockBytes(64), a.Groups(64))
		}
	}
	if n := (kernel.Act{Arith: kernel.F32}).Groups(64); n != 0 {
		t.Errorf("activations without groups have %d", n)
	}
}

func TestProblemNamesDiffer(t *testing.T) {
	l := kernel.Layout{Lanes: 16, Cols: 1}
	act := kernel.Act{Arith: kernel.A8, Group: 32, MR: 1}
	seen := map[string]bool{}
	for _, p := range []kernel.Problem{
		{Op: kernel.OpLinear, Arith: kernel.A8, M: 1, N: 64, K: 32, Format: kernel.FormatQ4_0, Layout: l},
		{Op: kernel.OpLinear, Arith: kernel.A8, M: 4, N: 64, K: 32, Format: kernel.FormatQ4_0, Layout: l},
		{Op: kernel.OpLinear, Arith: kernel.A8, M: 4, N: 64, K: 32, Format: kernel.FormatQ4_1, Layout: l},
		{Op: kernel.OpQuant, K: 32, Act: act, Pre: kernel.PreNorm},
		{Op: kernel.OpQuant, K: 32, Act: act, Pre: kernel.PreGLU, Gate: kernel.GateSiLU},
		{Op: kernel.OpRope, Dim: 64, Rot: 64, Elem: kernel.ElemF16},
		{Op: kernel.OpRope, Dim: 64, Rot: 64, Elem: kernel.ElemF16, Norm: true},
		{Op: kernel.OpAttn, M: 3, Dim: 64, Elem: kernel.ElemF16},
		{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: l},
		{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: l, Source: kernel.BlockQ4_0},
		{Op: kernel.OpPeak, Arith: kernel.A8}, {Op: kernel.OpScale}, {Op: kernel.OpStream},
	} {
		if s := p.String(); s == "" || seen[s] {
			t.Errorf("name %q is empty or taken", s)
		} else {
			seen[s] = true
		}
	}
}

func TestFeatures(t *testing.T) {
	f := kernel.NewFeatures("fma", "avx2", "fma", "f16c")
	if !slices.Equal(f, []string{"avx2", "f16c", "fma"}) {
		t.Errorf("features are %v", f)
	}
	if !f.Has("avx2", "fma") || f.Has("avx512f") || !f.Has() {
		t.Errorf("%v: Has is wrong", f)
	}
	if m := f.Missing([]string{"avx2", "amx_int8"}); !slices.Equal(m, []string{"amx_int8"}) {
		t.Errorf("missing %v", m)
	}
	if w := f.Without("fma"); w.Has("fma") || !f.Has("fma") {
		t.Errorf("Without gave %v and left %v", w, f)
	}
}

// Sizes of caches travel with the features and are none.
func TestFeaturesTellCaches(t *testing.T) {
	f := kernel.NewFeatures("avx2", "fma").WithCache(2, 1280<<10).WithCache(1, 48<<10).WithCache(3, 0)
	if f.Cache(1) != 48<<10 || f.Cache(2) != 1280<<10 || f.Cache(3) != 0 || !f.Has("avx2", "fma") || !slices.IsSorted(f) {
		t.Errorf("%v", f)
	}
	if g := f.WithCache(2, 2<<20); g.Cache(2) != 2<<20 || f.Cache(2) != 1280<<10 || len(g) != len(f) {
		t.Errorf("%v, from %v", g, f)
	}
	if g := f.WithCache(1, 0).WithCache(2, 0); !slices.Equal(g, kernel.NewFeatures("avx2", "fma")) {
		t.Errorf("%v", g)
	}
	for _, bad := range []string{"l2_kib=", "l2_kib=-4", "l2_kib=x", "l2_kib=99999999999999999999"} {
		if v := kernel.NewFeatures(bad).Cache(2); v != 0 {
			t.Errorf("%q: %d", bad, v)
		}
	}
}
