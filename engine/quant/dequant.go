package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

var le = binary.LittleEndian

// Dequant gives the exact float32 values of whole blocks: bit for bit those of ggml. Floats are
// converted, NaN and infinities included.
func Dequant(t gguf.Type, src []byte, dst []float32) error {
	if t.IsFloat() {
		return floats(t, src, dst)
	}
	block := BlockOf(t)
	if block == kernel.BlockNone {
		return fmt.Errorf("quant: type %s cannot be executed", t)
	}
	if len(src)%t.BlockBytes() != 0 || len(dst) != len(src)/t.BlockBytes()*t.Block() {
		return fmt.Errorf("quant: %d bytes in blocks of %d (%s) do not hold %d weights", len(src), t.BlockBytes(), t, len(dst))
	}
	d := newDecoder(block)
	for len(dst) > 0 {
		n := min(len(dst), stretch)
		if err := d.decode(src[:t.RowBytes(n)], n); err != nil {
			return err
		}
		for g := range n / d.format.Group {
			at := g * d.format.Group
			expand(d.format, d.q[at:], d.s[g], d.m[g], dst[at:])
		}
		src, dst = src[t.RowBytes(n):], dst[n:]
	}
	return nil
}

// expand computes s*(q - Bias) + m for one group.
func expand(f kernel.Format, q []uint8, s, m float32, dst []float32) {
	q, dst = q[:f.Group], dst[:f.Group]
	for i, c := range q {
		v := float32(s * float32(int(c)-f.Bias))
		if f.Offset {
			v += m
		}
		dst[i] = v
	}
}

// stretch is how many weights are decoded at a time: whole blocks of every type.
const stretch = 256

// decoder decodes whole blocks, stretch weights at most, to codes and the exact scales of the type.
type decoder struct {
	block  kernel.Block
	format kernel.Format
	q      [stretch]uint8
	set    kernel.ScaleSet
	s, m   [stretch / 16]float32 // by group
}

func newDecoder(b kernel.Block) *decoder {
	return &decoder{block: b, format: b.Format(), set: b.Format().NewScaleSet(stretch)}
}

// decode decodes n weights.
func (d *decoder) decode(src []byte, n int) error {
	set := d.set.Slice(d.format, 0, n)
	if err := ref.Decode(d.block, d.format, src, d.q[:n], set); err != nil {
		return err
	}
	if d.format.Super == kernel.SuperNone {
		for g, h := range set.Scales {
			d.s[g] = ref.F16ToF32(h)
			if d.format.Offset {
				d.m[g] = ref.F16ToF32(set.Offsets[g])
			}
		}
		return nil
	}
	s := ref.F16ToF32(set.Scales[0])
	for g, sub := range set.Subs {
		if d.format.Super == kernel.SuperQ6K {
			d.s[g] = s * float32(int8(sub))
			continue
		}
		d.s[g], d.m[g] = s*float32(sub), ref.F16ToF32(set.Offsets[0])*float32(set.SubOffsets[g])
	}
	return nil
}

func floats(t gguf.Type, src []byte, dst []float32) error {
	if len(src) != len(dst)*t.BlockBytes() {
		return fmt.Errorf("quant: %d bytes of %s are not %d weights", len(src), t, len(dst))
	}
	switch t {
	case gguf.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case gguf.F16:
		for i := range dst {
			dst[i] = ref.F16ToF32(le.Uint16(src[2*i:]))
		}
	case gguf.BF16:
		for i := range dst {
			dst[i] = ref.BF16ToF32(le.Uint16(src[2*i:]))
		}
	}
	return nil
}

// CheckFinite reports the first weight of a float type that is NaN or infinite. Quantised types are
// checked by Codes.
func CheckFinite(t gguf.Type, src []byte) error {
	exp, size := uint32(0x7f800000), t.BlockBytes()
	if t == gguf.F16 {
		exp = 0x7c00
	} else if t == gguf.BF16 {
		exp = 0x7f80
	} else if t != gguf.F32 {
		return fmt.Errorf("quant: %s is not a float type", t)
	}
	for i := 0; i+size <= len(src); i += size {
		v := uint32(le.Uint16(src[i:]))
		if size == 4 {
			v = le.Uint32(src[i:])
		}
		if v&exp == exp {
			return fmt.Errorf("quant: weight %d is not finite", i/size)
		}
	}
	return nil
}
