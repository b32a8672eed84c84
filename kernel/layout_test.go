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
	{Bits: 6, Group: 32, Bias: 32, Scale: kernel.ScaleF16},
	kernel.FormatQ2_K, kernel.FormatQ3_K, kernel.FormatQ4_K, kernel.FormatQ5_K, kernel.FormatQ6_K,
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
		take := func(c, i, off int, mask uint8) {
			if off >= len(seen) || seen[off]&mask != 0 {
				t.Fatalf("channel %d, position %d: byte %d, bits %#x are outside or taken", c, i, off, mask)
			}
			seen[off] |= mask
		}
		for c := range l.NR() {
			for i := range k {
				off, shift := l.CodeAt(f, c, i)
				switch f.Bits {
				case 4:
					take(c, i, off, 0xf<<shift)
				case 6:
					take(c, i, off, 0xf<<shift)
					off, shift = l.UpperAt(c, i)
					take(c, i, off, 3<<shift)
				default:
					for b := range f.Bits / 8 {
						take(c, i, off+b, 0xff)
					}
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
		const k = 512
		seen := make([]bool, l.ScaleBytes(f, k))
		take := func(off, n int) {
			for i := range n {
				if off%n != 0 || off+i >= len(seen) || seen[off+i] {
					t.Fatalf("scale at byte %d of %d is outside or taken", off, len(seen))
				}
				seen[off+i] = true
			}
		}
		for c := range l.NR() {
			for g := 0; !f.IsFloat() && g < k/f.Group; g++ {
				if g*f.Group%f.ScaleGroup() == 0 {
					take(l.ScaleAt(f, c, g), 2)
					if f.Offset {
						take(l.ScaleAt(f, c, g)+2*l.NR(), 2)
					}
				}
				if f.Super != kernel.SuperNone {
					take(l.SubAt(f, c, g), 1)
					if f.Offset {
						take(l.SubAt(f, c, g)+l.NR(), 1)
					}
				}
			}
		}
		for i, ok := range seen {
			if !ok {
				t.Fatalf("byte %d belongs to no scale", i)
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
		{kernel.FormatQ6_K, 5, 3, 20 + 3, 0},
		{kernel.FormatQ6_K, 5, 14, 128 + 20 + 2, 4},
		{kernel.FormatQ6_K, 0, 16, 384, 0},
		{kernel.FormatQ8_0, 1, 6, 128 + 4 + 2, 0},
		{kernel.FormatF16, 2, 3, 128 + 8 + 2, 0},
		{kernel.FormatF32, 3, 2, 256 + 12, 0},
	} {
		if off, shift := l.CodeAt(c.f, c.channel, c.k); off != c.off || shift != c.shift {
			t.Errorf("%s, channel %d, k %d: byte %d, shift %d, want %d, %d", c.f, c.channel, c.k, off, shift, c.off, c.shift)
		}
	}
}

func TestUpperBits(t *testing.T) {
	l := kernel.Layout{Lanes: 16, Cols: 2}
	for _, c := range [][4]int{{0, 0, 256, 0}, {0, 3, 256 + 3, 0}, {3, 4, 256 + 12, 2}, {17, 13, 256 + 68 + 1, 6}, {0, 16, 640, 0}} {
		if off, shift := l.UpperAt(c[0], c[1]); off != c[2] || int(shift) != c[3] {
			t.Errorf("channel %d, k %d: byte %d, shift %d, want %d, %d", c[0], c[1], off, shift, c[2], c[3])
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
