package kernel_test

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"pgregory.net/rapid"
)

var formats = []kernel.Format{
	kernel.FormatQ4_0, kernel.FormatQ4_1, kernel.FormatQ8_0, kernel.FormatF16, kernel.FormatBF16, kernel.FormatF32,
	kernel.Asym(16), kernel.Asym(64), kernel.Asym(128),
	{Bits: 8, Group: 64, Bias: 128, Offset: true, Scale: kernel.ScaleBF16},
}

var anyLayout = rapid.Custom(func(t *rapid.T) kernel.Layout {
	return kernel.Layout{Lanes: rapid.IntRange(1, 64).Draw(t, "lanes"), Cols: rapid.IntRange(1, 4).Draw(t, "cols")}
})

// TestCodeAtIsABijection checks that the codes of a panel tile its bytes: each bit belongs to one
// code, and none is left over.
func TestCodeAtIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, l := rapid.SampledFrom(formats).Draw(t, "format"), anyLayout.Draw(t, "layout")
		k := 128 * rapid.IntRange(1, 2).Draw(t, "k/128")
		seen := make([]uint8, l.PanelBytes(f, k))
		for c := range l.NR() {
			for i := range k {
				off, shift := l.CodeAt(f, c, i)
				width, mask := (f.Bits+7)/8, uint8(0xff)
				if f.Bits == 4 {
					mask = 0xf << shift
				}
				for b := range width {
					if off+b >= len(seen) || seen[off+b]&mask != 0 {
						t.Fatalf("channel %d, position %d: byte %d, shift %d is outside or taken", c, i, off+b, shift)
					}
					seen[off+b] |= mask
				}
			}
		}
		for i, m := range seen {
			if m != 0xff {
				t.Fatalf("byte %d of the panel belongs to no code (mask %#x)", i, m)
			}
		}
	})
}

func TestScaleAtIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, l := rapid.SampledFrom(formats).Draw(t, "format"), anyLayout.Draw(t, "layout")
		const k = 256
		seen := make([]bool, l.ScaleBytes(f, k)/2)
		take := func(off int) {
			if off%2 != 0 || off/2 >= len(seen) || seen[off/2] {
				t.Fatalf("scale at byte %d of %d is outside or taken", off, 2*len(seen))
			}
			seen[off/2] = true
		}
		for c := range l.NR() {
			for g := 0; !f.IsFloat() && g < k/f.Group; g++ {
				take(l.ScaleAt(f, c, g))
				if f.Offset {
					take(l.ScaleAt(f, c, g) + 2*l.NR())
				}
			}
		}
		for i, ok := range seen {
			if !ok {
				t.Fatalf("bytes %d and %d belong to no scale", 2*i, 2*i+1)
			}
		}
	})
}

// TestNibbleOrder pins the order of codes in a dword, which generated kernels rely on.
func TestNibbleOrder(t *testing.T) {
	l := kernel.Layout{Lanes: 16, Cols: 2}
	for _, c := range []struct {
		f       kernel.Format
		channel int
		k, off  int
		shift   uint
	}{
		{kernel.FormatQ4_0, 0, 0, 0, 0},
		{kernel.FormatQ4_0, 0, 3, 3, 0},
		{kernel.FormatQ4_0, 0, 4, 0, 4},
		{kernel.FormatQ4_0, 0, 7, 3, 4},
		{kernel.FormatQ4_0, 5, 0, 20, 0},
		{kernel.FormatQ4_0, 16, 0, 64, 0},
		{kernel.FormatQ4_0, 17, 9, 128 + 68 + 1, 0},
		{kernel.FormatQ8_0, 1, 6, 128 + 4 + 2, 0},
		{kernel.FormatF16, 2, 3, 128 + 8 + 2, 0},
		{kernel.FormatF32, 3, 2, 256 + 12, 0},
	} {
		if off, shift := l.CodeAt(c.f, c.channel, c.k); off != c.off || shift != c.shift {
			t.Errorf("%s, channel %d, k %d: byte %d, shift %d, want %d, %d", c.f, c.channel, c.k, off, shift, c.off, c.shift)
		}
	}
}

func TestLayoutSizes(t *testing.T) {
	l := kernel.Layout{Lanes: 16, Cols: 2}
	if l.NR() != 32 || l.String() != "nr16x2" || l.PaddedN(33) != 64 || l.Panels(32) != 1 || l.Panels(33) != 2 {
		t.Errorf("NR %d, name %s, PaddedN(33) %d, Panels %d and %d", l.NR(), l, l.PaddedN(33), l.Panels(32), l.Panels(33))
	}
	if n := l.TensorBytes(kernel.FormatQ4_1, 33, 64); n != 2*(32*64/2+32*2*2*2) {
		t.Errorf("33 x 64 of Q4_1 takes %d bytes", n)
	}
	if err := (kernel.Layout{Lanes: 0, Cols: 1}).Validate(kernel.FormatF32); err == nil {
		t.Error("a layout of no lanes is valid")
	}
	if err := l.Validate(kernel.Format{Bits: 5}); err == nil {
		t.Error("a layout of 5-bit codes is valid")
	}
}
