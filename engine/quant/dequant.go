package quant

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/kernel"
)

// Dequant gives the exact float32 values of whole blocks: bit for bit those of ggml. Floats are
// converted, NaN and infinities included.
func Dequant(t gguf.Type, src []byte, dst []float32) error {
	if t.IsFloat() {
		return floats(t, src, dst)
	}
	c, n, err := blocks(t, src)
	if err != nil {
		return err
	}
	weights := t.Block()
	if len(dst) != n*weights {
		return fmt.Errorf("quant: %d blocks of %s hold %d weights, not %d", n, t, n*weights, len(dst))
	}
	d := newDecoder(t, c)
	for i := range n {
		d.block(src, i)
		for g := range d.groups {
			expand(c.format, d.q[g*c.format.Group:], d.s[g], d.m[g], dst[i*weights+g*c.format.Group:])
		}
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

// maxGroups is the most groups that a block has.
const maxGroups = 16

// decoder decodes one block at a time to codes and the exact scales of the type.
type decoder struct {
	codec
	bytes, groups int
	q             [256]uint8
	set           kernel.ScaleSet
	s, m          [maxGroups]float32
}

func newDecoder(t gguf.Type, c codec) *decoder {
	return &decoder{codec: c, bytes: t.BlockBytes(), groups: t.Block() / c.format.Group, set: c.format.NewScaleSet(t.Block())}
}

func (d *decoder) block(src []byte, i int) {
	b := src[i*d.bytes:][:d.bytes]
	if d.super == nil {
		d.half(b, d.q[:], d.set.Scales, d.set.Offsets)
		d.s[0] = F16(d.set.Scales[0])
		if d.format.Offset {
			d.m[0] = F16(d.set.Offsets[0])
		}
		return
	}
	d.super(b, d.q[:], d.set)
	s := F16(d.set.Scales[0])
	for g, sub := range d.set.Subs {
		if d.format.Super == kernel.SuperQ6K {
			d.s[g] = s * float32(int8(sub))
			continue
		}
		d.s[g], d.m[g] = s*float32(sub), F16(d.set.Offsets[0])*float32(d.set.SubOffsets[g])
	}
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
			dst[i] = F16(le.Uint16(src[2*i:]))
		}
	case gguf.BF16:
		for i := range dst {
			dst[i] = BF16(le.Uint16(src[2*i:]))
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
