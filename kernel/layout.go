package kernel

import "fmt"

// LayoutVersion changes when the meaning of a Layout changes.
const LayoutVersion = 1

// Layout says where the code of weight (n, k) lies. It belongs to the tensor, not to a problem:
// decode and prefill read the same bytes.
//
// N is padded to a multiple of NR = Lanes*Cols channels and cut into panels of NR channels. A panel
// is a sequence of runs over K; one run is Lanes dwords, dword lane = channel, holding 32/Bits
// consecutive k: 8 for 4-bit codes (low nibbles k0-3, high nibbles k4-7), 4 for 8-bit codes, 2 for
// 16-bit floats (k0 in the low half), 1 for f32. For each step of K the Cols runs of the panel's
// columns follow each other. So a panel is one sequential stream of
//
//	[K*Bits/32][Cols][Lanes] dwords.
//
// Codes of 6 bits come 16 k at a time in three steps: two of low nibbles, as 4-bit codes are (k0-7,
// k8-15), and one of upper bits: bits 2i and 2i+1 of byte j belong to k = 4i+j.
//
// Scales lie in a second array, panel by panel, [K/Group][NR] of 16 bits; a format with offsets has
// [K/Group][scales NR, offsets NR]. With super-scales a panel has, for each 256 k, the 16-bit values
// in the same form and then those of 8 bits:
//
//	[K/256]{[scales NR, offsets NR] of 16 bits, [256/Group][sub-scales NR, sub-offsets NR] bytes}.
//
// Padded channels have code Bias, scale 0, offset 0.
type Layout struct {
	Lanes int `json:"lanes" key:"hard"` // channels of one run: 16 on amd64, 4 on arm64
	Cols  int `json:"cols" key:"hard"`  // runs interleaved in a panel
}

// NR is the number of channels of a panel.
func (l Layout) NR() int { return l.Lanes * l.Cols }

func (l Layout) String() string { return fmt.Sprintf("nr%dx%d", l.Lanes, l.Cols) }

// Validate reports why a layout cannot hold a format.
func (l Layout) Validate(f Format) error {
	if l.Lanes < 1 || l.Lanes > 64 || l.Cols < 1 || l.Cols > 16 {
		return fmt.Errorf("kernel: layout %s: lanes must be 1 to 64 and columns 1 to 16", l)
	}
	return f.Validate()
}

// PaddedN is n rounded up to whole panels.
func (l Layout) PaddedN(n int) int { return (n + l.NR() - 1) / l.NR() * l.NR() }

// Panels is the number of panels of n channels.
func (l Layout) Panels(n int) int { return l.PaddedN(n) / l.NR() }

// PanelBytes is the size of the codes of one panel. K must be a multiple of the format's Unit.
func (l Layout) PanelBytes(f Format, k int) int { return k * f.Bits / 8 * l.NR() }

// ScaleBytes is the size of the scales and offsets of one panel, 0 for float formats.
func (l Layout) ScaleBytes(f Format, k int) int {
	if f.IsFloat() {
		return 0
	}
	return l.NR() * f.scaleBytes(k)
}

// TensorBytes is what an N x K tensor occupies: codes plus scales of all panels.
func (l Layout) TensorBytes(f Format, n, k int) int {
	return l.Panels(n) * (l.PanelBytes(f, k) + l.ScaleBytes(f, k))
}

// CodeAt locates the code of channel c (within its panel) and position k: byte offset in the panel
// and bit shift within that byte. Codes of 8, 16 and 32 bits have shift 0. Of a 6-bit code these are
// the lower four bits; UpperAt locates the others.
func (l Layout) CodeAt(f Format, c, k int) (off int, shift uint) {
	switch f.Bits {
	case 4:
		return l.dword(k/8, c) + k%4, uint(k / 4 % 2 * 4)
	case 6:
		return l.dword(k/16*3+k/8%2, c) + k%4, uint(k / 4 % 2 * 4)
	}
	per := 32 / f.Bits
	return l.dword(k/per, c) + k%per*f.Bits/8, 0
}

// UpperAt locates the upper two bits of a 6-bit code.
func (l Layout) UpperAt(c, k int) (off int, shift uint) {
	return l.dword(k/16*3+2, c) + k%4, uint(k / 4 % 4 * 2)
}

// dword is the byte offset of the dword of channel c in a step.
func (l Layout) dword(step, c int) int {
	return ((step*l.Cols+c/l.Lanes)*l.Lanes + c%l.Lanes) * 4
}

// ScaleAt locates the 16-bit scale of channel c and group g in a panel's scale array, in bytes; the
// offset (if the format has one) lies NR*2 bytes after it.
func (l Layout) ScaleAt(f Format, c, g int) int {
	at := g * f.Group / f.ScaleGroup() // which of the 16-bit scales
	return at*l.NR()*f.scaleBytes(f.ScaleGroup()) + 2*c
}

// SubAt locates the 8-bit sub-scale of channel c and group g of a format with super-scales; the
// sub-offset (if the format has offsets) lies NR bytes after it.
func (l Layout) SubAt(f Format, c, g int) int {
	per := 1
	if f.Offset {
		per = 2
	}
	return l.ScaleAt(f, 0, g) + l.NR()*per*(2+g%(SuperGroup/f.Group)) + c
}
