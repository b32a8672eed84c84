package quant

import (
	"fmt"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// BlockOf is the kernel's name of a type, BlockNone for one that cannot be executed.
func BlockOf(t gguf.Type) kernel.Block { return byType[t] }

var byType = map[gguf.Type]kernel.Block{
	gguf.Q4_0: kernel.BlockQ4_0, gguf.Q4_1: kernel.BlockQ4_1, gguf.Q5_0: kernel.BlockQ5_0, gguf.Q5_1: kernel.BlockQ5_1,
	gguf.Q8_0: kernel.BlockQ8_0, gguf.Q2_K: kernel.BlockQ2_K, gguf.Q3_K: kernel.BlockQ3_K, gguf.Q4_K: kernel.BlockQ4_K,
	gguf.Q5_K: kernel.BlockQ5_K, gguf.Q6_K: kernel.BlockQ6_K, gguf.IQ4_NL: kernel.BlockIQ4NL, gguf.IQ4_XS: kernel.BlockIQ4XS,
	gguf.F16: kernel.BlockF16, gguf.BF16: kernel.BlockBF16, gguf.F32: kernel.BlockF32,
}

// FormatFor returns the Format that holds a type's weights exactly, for rows of k of them.
func FormatFor(t gguf.Type, k int) (kernel.Format, error) {
	b := BlockOf(t)
	if b == kernel.BlockNone {
		return kernel.Format{}, fmt.Errorf("quant: type %s cannot be executed", t)
	}
	if k <= 0 || !t.IsFloat() && k%t.Block() != 0 {
		return kernel.Format{}, fmt.Errorf("quant: rows of %d weights are not whole blocks of %d (%s)", k, t.Block(), t)
	}
	return b.Format(), nil
}

// Codes unpacks whole blocks of a quantised type to codes, one byte each in the order of k, and the
// scales of its Format. q and s are sized for as many weights as src has. A scale that is not finite
// is an error that names which.
func Codes(t gguf.Type, src []byte, q []uint8, s kernel.ScaleSet) error {
	b := BlockOf(t)
	if err := ref.Decode(b, b.Format(), src, q, s); err != nil {
		return fmt.Errorf("quant: %s: %w", t, err)
	}
	if err := finite(t, "scale", s.Scales); err != nil {
		return err
	}
	return finite(t, "offset", s.Offsets)
}

func finite(t gguf.Type, what string, h []uint16) error {
	for i, v := range h {
		if v&0x7c00 == 0x7c00 {
			return fmt.Errorf("quant: %s: %s %d is not finite (%v)", t, what, i, ref.F16ToF32(v))
		}
	}
	return nil
}
