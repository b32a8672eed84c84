package quant

import (
	"fmt"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/kernel"
)

// codec is how a block type maps to a Format that holds it exactly. One of the functions is set: half
// decodes whole blocks with f16 scales, super one block of 256 weights with two levels of scales.
type codec struct {
	format kernel.Format
	half   func(b []byte, q []uint8, s, m []uint16)
	super  func(b []byte, q []uint8, s kernel.ScaleSet)
}

var codecs = map[gguf.Type]codec{
	gguf.Q4_0:   {format: kernel.FormatQ4_0, half: q4_0},
	gguf.Q4_1:   {format: kernel.FormatQ4_1, half: q4_1},
	gguf.Q8_0:   {format: kernel.FormatQ8_0, half: q8_0},
	gguf.Q5_0:   {format: kernel.FormatQ8_0, half: q5_0},
	gguf.Q5_1:   {format: kernel.Format{Bits: 8, Group: 32, Offset: true, Scale: kernel.ScaleF16}, half: q5_1},
	gguf.IQ4_NL: {format: kernel.FormatQ8_0, half: iq4nl},
	gguf.IQ4_XS: {format: kernel.Format{Bits: 8, Group: 32, Bias: 128, Super: kernel.SuperQ6K, Scale: kernel.ScaleF16}, super: iq4xs},
	gguf.Q2_K:   {format: kernel.FormatQ2_K, super: q2k},
	gguf.Q3_K:   {format: kernel.FormatQ3_K, super: q3k},
	gguf.Q4_K:   {format: kernel.FormatQ4_K, super: q4k},
	gguf.Q5_K:   {format: kernel.FormatQ5_K, super: q5k},
	gguf.Q6_K:   {format: kernel.FormatQ6_K, super: q6k},
}

// FormatFor returns the Format that holds a type's weights exactly, for rows of k of them.
func FormatFor(t gguf.Type, k int) (kernel.Format, error) {
	switch t {
	case gguf.F32:
		return kernel.FormatF32, nil
	case gguf.F16:
		return kernel.FormatF16, nil
	case gguf.BF16:
		return kernel.FormatBF16, nil
	}
	c, ok := codecs[t]
	if !ok {
		return kernel.Format{}, fmt.Errorf("quant: type %s cannot be executed", t)
	}
	if k <= 0 || k%t.Block() != 0 {
		return kernel.Format{}, fmt.Errorf("quant: rows of %d weights are not whole blocks of %d (%s)", k, t.Block(), t)
	}
	return c.format, nil
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

// Codes unpacks whole blocks of a quantised type to codes, one byte each in the order of k, and the
// scales of its Format. q and s are sized for as many weights as src has. A scale that is not finite
// is an error that names which.
func Codes(t gguf.Type, src []byte, q []uint8, s kernel.ScaleSet) error {
	c, n, err := blocks(t, src)
	if err != nil {
		return err
	}
	size, weights := t.BlockBytes(), t.Block()
	if len(q) != n*weights || !s.Fits(c.format, len(q)) {
		return fmt.Errorf("quant: %d blocks of %s need %d codes and their scales, not %d and %d", n, t, n*weights, len(q), len(s.Scales))
	}
	if c.half != nil {
		c.half(src, q, s.Scales, s.Offsets)
	} else {
		for i := range n {
			c.super(src[i*size:][:size], q[i*weights:][:weights], s.Slice(c.format, i*weights, (i+1)*weights))
		}
	}
	if err := finite(t, "scale", s.Scales); err != nil {
		return err
	}
	return finite(t, "offset", s.Offsets)
}

func finite(t gguf.Type, what string, h []uint16) error {
	for i, v := range h {
		if v&0x7c00 == 0x7c00 {
			return fmt.Errorf("quant: %s: %s %d is not finite (%v)", t, what, i, F16(v))
		}
	}
	return nil
}
