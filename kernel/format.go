package kernel

import "fmt"

// Super names a two-level scale of a K-quant.
type Super string

const (
	SuperNone Super = ""
	SuperQ4K  Super = "q4_k" // 8-bit sub-scales and sub-minima under f16 d and dmin per 256
	SuperQ6K  Super = "q6_k" // 8-bit signed sub-scales under f16 d per 256
)

// ScaleType is the type of stored scales and offsets.
type ScaleType string

const (
	ScaleF16  ScaleType = "f16"
	ScaleBF16 ScaleType = "bf16"
)

// Format says how weights are coded: w = s*(q - Bias) + m with q unsigned of Bits bits, one scale s
// (and, if Offset, one m) per Group consecutive k of an output channel.
//
// Bits 16 and 32 are plain floats (Scale names the 16-bit type): no group, no scales, F32 arithmetic.
type Format struct {
	Bits   int       `json:"bits" key:"hard"`                 // 4, 6, 8, 16, 32
	Group  int       `json:"group,omitempty" key:"hard"`      // 16, 32, 64, 128
	Bias   int       `json:"bias,omitempty" key:"hard"`       // 0, 8, 32, 128
	Offset bool      `json:"offset,omitempty" key:"hard"`     // an m of ScaleType per group
	Super  Super     `json:"super,omitempty" key:"hard"`      //
	Scale  ScaleType `json:"scale_type,omitempty" key:"hard"` //
}

// Formats that loaders choose from.
var (
	FormatQ4_0 = Format{Bits: 4, Group: 32, Bias: 8, Scale: ScaleF16}
	FormatQ4_1 = Format{Bits: 4, Group: 32, Offset: true, Scale: ScaleF16}
	FormatQ8_0 = Format{Bits: 8, Group: 32, Bias: 128, Scale: ScaleF16}
	FormatF16  = Format{Bits: 16, Scale: ScaleF16}
	FormatBF16 = Format{Bits: 16, Scale: ScaleBF16}
	FormatF32  = Format{Bits: 32}
)

// Asym returns the asymmetric 4-bit format of a group size.
func Asym(group int) Format {
	return Format{Bits: 4, Group: group, Offset: true, Scale: ScaleF16}
}

// IsFloat reports whether weights are plain floats.
func (f Format) IsFloat() bool { return f.Bits >= 16 }

// Arith returns the arithmetic that runs this format when the model asks for want: floats need F32.
func (f Format) Arith(want Arith) Arith {
	if f.IsFloat() {
		return F32
	}
	return want
}

// Validate reports why a format is not one that the contract knows.
func (f Format) Validate() error {
	bad := func(why string) error { return fmt.Errorf("kernel: format %s: %s", f, why) }
	switch f.Bits {
	case 32, 16:
		if f.Group != 0 || f.Bias != 0 || f.Offset || f.Super != SuperNone {
			return bad("float weights have no group, bias, offset or super-scale")
		}
		if f.Bits == 16 && f.Scale != ScaleF16 && f.Scale != ScaleBF16 {
			return bad("16-bit weights need scale type f16 or bf16")
		}
		return nil
	case 4, 6, 8:
	default:
		return bad("bits must be 4, 6, 8, 16 or 32")
	}
	switch f.Group {
	case 16, 32, 64, 128:
	default:
		return bad("group must be 16, 32, 64 or 128")
	}
	switch f.Bias {
	case 0, 8, 32, 128:
	default:
		return bad("bias must be 0, 8, 32 or 128")
	}
	switch f.Super {
	case SuperNone, SuperQ4K, SuperQ6K:
	default:
		return bad("unknown super-scale")
	}
	if f.Scale != ScaleF16 && f.Scale != ScaleBF16 {
		return bad("scale type must be f16 or bf16")
	}
	return nil
}

// String is a compact name: q4g128a (asymmetric), q4g32b8, q8g32b128, f16, f32.
func (f Format) String() string {
	if f.Bits == 32 {
		return "f32"
	}
	if f.Bits == 16 {
		return string(f.Scale)
	}
	s := fmt.Sprintf("q%dg%d", f.Bits, f.Group)
	if f.Bias != 0 {
		s += fmt.Sprintf("b%d", f.Bias)
	}
	if f.Offset {
		s += "a"
	}
	if f.Scale == ScaleBF16 {
		s += "-bf16"
	}
	if f.Super != SuperNone {
		s += "-" + string(f.Super)
	}
	return s
}

// BitsPerWeight is the storage of one weight, scales included.
func (f Format) BitsPerWeight() float64 {
	if f.IsFloat() {
		return float64(f.Bits)
	}
	return float64(f.Bits) + 8*float64(f.scaleRowBytes())/float64(f.Group) + f.superBits()
}

// scaleRowBytes is the bytes of scales and offsets of one channel and group.
func (f Format) scaleRowBytes() int {
	per := 2
	if f.Super != SuperNone {
		per = 1
	}
	if f.Offset {
		per *= 2
	}
	return per
}

func (f Format) superBits() float64 {
	switch f.Super {
	case SuperQ4K:
		return 32.0 / 256
	case SuperQ6K:
		return 16.0 / 256
	}
	return 0
}
