package quant

import (
	"fmt"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/kernel"
)

// codec is how a block type maps to a Format. Exactly one of half and wide is set: half where the
// stored f16 scales are those of the Format, wide where a group's scale is a product, which wide
// gives in float32 (exactly: 11 by at most 8 bits).
type codec struct {
	format kernel.Format
	half   func(b []byte, q []uint8, s, m []uint16)
	wide   func(b []byte, q []uint8, s, m []float32)
}

func format(bits, group, bias int, offset bool) kernel.Format {
	return kernel.Format{Bits: bits, Group: group, Bias: bias, Offset: offset, Scale: kernel.ScaleF16}
}

var codecs = map[gguf.Type]codec{
	gguf.Q4_0:   {format: kernel.FormatQ4_0, half: q4_0},
	gguf.Q4_1:   {format: kernel.FormatQ4_1, half: q4_1},
	gguf.Q8_0:   {format: kernel.FormatQ8_0, half: q8_0},
	gguf.Q5_0:   {format: kernel.FormatQ8_0, half: q5_0},
	gguf.Q5_1:   {format: format(8, 32, 0, true), half: q5_1},
	gguf.IQ4_NL: {format: kernel.FormatQ8_0, half: iq4nl},
	gguf.IQ4_XS: {format: kernel.FormatQ8_0, wide: iq4xs},
	gguf.Q2_K:   {format: format(4, 16, 0, true), wide: q2k},
	gguf.Q3_K:   {format: format(4, 16, 8, false), wide: q3k},
	gguf.Q4_K:   {format: kernel.FormatQ4_1, wide: q4k},
	gguf.Q5_K:   {format: format(8, 32, 0, true), wide: q5k},
	gguf.Q6_K:   {format: format(8, 16, 32, false), wide: q6k},
}

// FormatFor returns the Format that keeps a type's grid for rows of k weights, and whether it holds
// every weight exactly (if not, Error measures by how much). Floats keep their own 16 or 32 bits.
func FormatFor(t gguf.Type, k int) (f kernel.Format, exact bool, err error) {
	switch t {
	case gguf.F32:
		return kernel.FormatF32, true, nil
	case gguf.F16:
		return kernel.FormatF16, true, nil
	case gguf.BF16:
		return kernel.FormatBF16, true, nil
	}
	c, ok := codecs[t]
	if !ok {
		return f, false, fmt.Errorf("quant: type %s cannot be executed", t)
	}
	if k <= 0 || k%t.Block() != 0 {
		return f, false, fmt.Errorf("quant: rows of %d weights are not whole blocks of %d (%s)", k, t.Block(), t)
	}
	return c.format, c.half != nil, nil
}

// blocks returns the codec of a type and the number of its blocks in src, which must be whole.
func blocks(t gguf.Type, src []byte) (codec, int, error) {
	c, ok := codecs[t]
	if !ok {
		return c, 0, fmt.Errorf("quant: %s is not a quantised type that can be executed", t)
	}
	if len(src)%t.BlockBytes() != 0 {
		return c, 0, fmt.Errorf("quant: %d bytes are not whole blocks of %d (%s)", len(src), t.BlockBytes(), t)
	}
	return c, len(src) / t.BlockBytes(), nil
}

// maxGroups is the most groups that a block has.
const maxGroups = 16

// Codes unpacks whole blocks of a quantised type to codes, one byte each in the order of k, and the
// f16 scales and offsets of its groups (m is not touched if the Format has no offset). q holds as
// many codes as src has weights, s and m one item a group. A scale that is not finite, or whose
// product does not fit f16, is an error that names the group.
func Codes(t gguf.Type, src []byte, q []uint8, s, m []uint16) error {
	c, n, err := blocks(t, src)
	if err != nil {
		return err
	}
	size, weights := t.BlockBytes(), t.Block()
	groups := weights / c.format.Group
	if len(q) != n*weights || len(s) != n*groups || c.format.Offset && len(m) != n*groups {
		return fmt.Errorf("quant: %d blocks of %s need %d codes and %d scales, not %d and %d", n, t, n*weights, n*groups, len(q), len(s))
	}
	if !c.format.Offset {
		m = nil
	}
	if c.half != nil {
		c.half(src, q, s, m)
	} else {
		var ws, wm [maxGroups]float32
		for i := range n {
			c.wide(src[i*size:][:size], q[i*weights:][:weights], ws[:groups], wm[:groups])
			toHalves(s[i*groups:], ws[:groups])
			if m != nil {
				toHalves(m[i*groups:], wm[:groups])
			}
		}
	}
	if err := finite(t, "scale", s); err != nil {
		return err
	}
	return finite(t, "offset", m)
}

func toHalves(dst []uint16, src []float32) {
	for i, v := range src {
		dst[i] = ToF16(v)
	}
}

func finite(t gguf.Type, what string, h []uint16) error {
	for i, v := range h {
		if v&0x7c00 == 0x7c00 {
			return fmt.Errorf("quant: %s: %s of group %d is not finite in f16 (%v)", t, what, i, F16(v))
		}
	}
	return nil
}
