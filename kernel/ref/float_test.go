package ref

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestF16Exact checks all 65536 values against the definition, and that encoding inverts decoding.
func TestF16Exact(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		exp, frac := int(h>>10&31), float64(h&0x3ff)
		want := math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		want = math.Copysign(want, -float64(h>>15))
		if h>>15 == 0 {
			want = math.Abs(want)
		}
		got := F16ToF32(h)
		if math.IsNaN(want) != (got != got) || got == got && math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Fatalf("F16ToF32(%#04x) = %g, want %g", h, got, want)
		}
		back := F32ToF16(got)
		if got != got {
			h |= 0x200
		}
		if back != h {
			t.Fatalf("F32ToF16(F16ToF32(%#04x)) = %#04x", h, back)
		}
		if b := BF16ToF32(uint16(i)); b == b && F32ToBF16(b) != uint16(i) {
			t.Fatalf("bf16 %#04x does not round-trip", i)
		}
	}
}

// TestRoundToNearestEven checks that both encoders pick the nearest value, and the even one of two.
func TestRoundToNearestEven(t *testing.T) {
	for name, c := range map[string]struct {
		enc func(float32) uint16
		dec func(uint16) float32
		max float64
	}{
		"f16":  {F32ToF16, F16ToF32, 65504},
		"bf16": {F32ToBF16, BF16ToF32, float64(math.Float32frombits(0x7f7f0000))},
	} {
		rapid.Check(t, func(t *rapid.T) {
			f := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
			if rapid.Bool().Draw(t, "half range") {
				f = rapid.Float32Range(-70000, 70000).Draw(t, "f")
			}
			if rapid.Bool().Draw(t, "tie") { // half way between two neighbours
				h := c.enc(f) &^ 0x8000
				lo, hi := float64(c.dec(h)), float64(c.dec(h+1))
				if !math.IsInf(hi, 0) && hi == hi {
					f = float32((lo + hi) / 2)
				}
			}
			h := c.enc(f)
			got := float64(c.dec(h))
			switch {
			case f != f:
				if got == got {
					t.Fatalf("%s: NaN became %g", name, got)
				}
				return
			case math.IsInf(got, 0):
				if math.Abs(float64(f)) <= c.max {
					t.Fatalf("%s: %g became infinite", name, f)
				}
				return
			}
			dist := math.Abs(got - float64(f))
			for _, n := range []uint16{h - 1, h + 1} {
				if v := float64(c.dec(n)); h&0x7fff != 0 && v == v && !math.IsInf(v, 0) {
					d := math.Abs(v - float64(f))
					if d < dist || d == dist && h&1 == 1 {
						t.Fatalf("%s: %g became %g, but %g is nearer or even", name, f, got, v)
					}
				}
			}
		})
	}
}
