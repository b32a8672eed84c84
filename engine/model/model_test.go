package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// TestPresets: shapes are valid, and the packed sizes are those of the published models at 4.25 bits.
func TestPresets(t *testing.T) {
	layout := kernel.Layout{Lanes: 16, Cols: 1}
	want := map[string]struct {
		bytes   int
		classes string
	}{
		"spark-1.7b":   {907_000_000, "[qkvg/3080x2048/q4g128a o/2048x2048/q4g128a gate_up/13312x2048/q4g128a down/2048x6656/q4g128a head/131072x2048/q4g128a]"},
		"llama-3.2-1b": {657_000_000, "[qkv/3072x2048/q4g128a o/2048x2048/q4g128a gate_up/16384x2048/q4g128a down/2048x8192/q4g128a head/128256x2048/q4g128a]"},
		"qwen3-0.6b":   {316_000_000, "[qkv/4096x1024/q4g128a o/1024x2048/q4g128a gate_up/6144x1024/q4g128a down/1024x3072/q4g128a head/151936x1024/q4g128a]"},
		"smollm2-135m": {74_000_000, "[qkv/960x576/q4g64a o/576x576/q4g64a gate_up/3072x576/q4g64a down/576x1536/q4g128a head/49152x576/q4g64a]"},
	}
	for _, name := range Presets() {
		s, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		classes, err := (&Model{Spec: s}).Classes(Numerics{Weights: W4A8})
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, c := range classes {
			bytes += c.Count * layout.TensorBytes(c.Format, c.N, c.K)
		}
		if w := want[name]; math.Abs(float64(bytes)/float64(w.bytes)-1) > 0.03 || fmt.Sprint(classes) != w.classes {
			t.Errorf("%s: %d bytes, classes %v; want about %d, %s", name, bytes, classes, w.bytes, w.classes)
		}
	}
	if _, err := Preset("gpt-5"); err == nil {
		t.Error("an unknown preset was found")
	}
}

// TestSegments stacks neighbours of equal format only.
func TestSegments(t *testing.T) {
	a, b := kernel.FormatQ4_0, kernel.FormatQ8_0
	parts := []Part{{RoleQ, 4}, {RoleK, 2}, {RoleV, 2}, {RoleG, 1}}
	for _, c := range []struct {
		f    []kernel.Format
		want string
	}{
		{[]kernel.Format{a, a, a, a}, "qkvg:9 "}, {[]kernel.Format{a, a, b, b}, "qk:6 vg:3 "}, {[]kernel.Format{a, b, a, a}, "q:4 k:2 vg:3 "},
	} {
		var got string
		for _, s := range Segments(parts, 64, c.f) {
			got += fmt.Sprintf("%s:%d ", s.Role, s.N)
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.f, got, c.want)
		}
	}
}

func TestExecutedFormats(t *testing.T) {
	for _, c := range []struct {
		native  kernel.Format
		role    Role
		k       int
		requant int
		want    string
	}{
		{kernel.FormatQ4_1, RoleQ, 576, 0, "q4g32a"}, {kernel.FormatBF16, RoleQ, 576, 0, "q4g32a"},
		{kernel.FormatF16, RoleHead, 576, 0, "q8g32b128"}, {kernel.FormatF32, RoleDown, 100, 0, "f16"},
		{kernel.FormatBF16, RoleDown, 100, 128, "bf16"}, {kernel.FormatQ8_0, RoleHead, 576, 128, "q4g64a"},
		{kernel.FormatQ4_0, RoleO, 96, 128, "q4g32a"}, {kernel.FormatQ4_0, RoleO, 256, 128, "q4g128a"},
	} {
		if got := Executed(c.native, c.role, c.k, c.requant); got.String() != c.want {
			t.Errorf("%s %s K=%d requant %d: %s, want %s", c.native, c.role, c.k, c.requant, got, c.want)
		}
	}
}

// TestHalvesIsAPermutation of each head that brings pairs together.
func TestHalvesIsAPermutation(t *testing.T) {
	const heads, dim = 3, 16
	for _, rot := range []int{16, 8} {
		seen := map[int]bool{}
		for n := range heads * dim {
			seen[halves(n, dim, rot)] = true
		}
		if len(seen) != heads*dim {
			t.Errorf("rot %d: %d rows of %d", rot, len(seen), heads*dim)
		}
		for i := range rot / 2 {
			if a, b := halves(dim+i, dim, rot), halves(dim+i+rot/2, dim, rot); a != dim+2*i || b != a+1 {
				t.Errorf("rot %d: pair %d is rows %d and %d", rot, i, a, b)
			}
		}
		if got := halves(dim+dim-1, dim, 8); got != 2*dim-1 {
			t.Errorf("a row that does not rotate moved to %d", got)
		}
	}
	if halves(7, 0, 4) != 7 {
		t.Error("unpaired rows moved")
	}
}

// TestRopeScalings checks the ends of each scaling: fast pairs are kept, slow ones stretched.
func TestRopeScalings(t *testing.T) {
	plain := NewRope(5e5, 64)
	for name, r := range map[string]Rope{
		"llama3": NewRope(5e5, 64).Llama3(8, 1, 4, 8192),
		"yarn":   NewRope(5e5, 64).Yarn(5e5, Yarn{Factor: 8, Orig: 8192, Ext: 1, Attn: 1, BetaFast: 32, BetaSlow: 1}),
	} {
		last := len(r.Freqs) - 1
		if r.Freqs[0] != plain.Freqs[0] || math.Abs(plain.Freqs[last]/r.Freqs[last]-8) > 1e-9 {
			t.Errorf("%s: first %v of %v, last %v of %v", name, r.Freqs[0], plain.Freqs[0], r.Freqs[last], plain.Freqs[last])
		}
	}
	if r := NewRope(1e4, 8).Linear(4); math.Abs(r.Freqs[1]*4-0.1) > 1e-12 || r.Factor != 1 {
		t.Errorf("linear: %+v", r)
	}
	if f := NewRope(1e4, 8).Yarn(1e4, Yarn{Factor: 4, Orig: 64, Ext: 1, Attn: 1, BetaFast: 32, BetaSlow: 1}).Factor; math.Abs(f-(0.1*math.Log(4)+1)) > 1e-12 {
		t.Errorf("yarn factor %v", f)
	}
}
