package kernel

import "fmt"

// Super names a two-level scale of a K-quant: the scale and the offset of a group are products of an
// 8-bit number of the group and a 16-bit float of SuperGroup weights.
type Super string

const (
	SuperNone Super = ""
	SuperQ4K  Super = "q4_k" // unsigned sub-scales under d and, for offsets, under -dmin
	SuperQ6K  Super = "q6_k" // signed sub-scales under d, no offsets
)

// SuperGroup is the number of weights under one super-scale.
const SuperGroup = 256

// ScaleType is the type of stored scales and offsets.
type ScaleType string

const (
	ScaleF16  ScaleType = "f16"
	ScaleBF16 ScaleType = "bf16"
)

// Format says how weights are coded: w = s*(q - Bias) + m with q unsigned of Bits bits, one scale s
// (and, if Offset, one m) per Group consecutive k of an output channel. With a super-scale s and m are
// products, exact in float32 (ScaleSet).
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
	FormatQ2_K = Format{Bits: 4, Group: 16, Offset: true, Super: SuperQ4K, Scale: ScaleF16} // codes up to 3
	FormatQ3_K = Format{Bits: 4, Group: 16, Bias: 8, Super: SuperQ6K, Scale: ScaleF16}      // codes 4 to 11
	FormatQ4_K = Format{Bits: 4, Group: 32, Offset: true, Super: SuperQ4K, Scale: ScaleF16}
	FormatQ5_K = Format{Bits: 6, Group: 32, Offset: true, Super: SuperQ4K, Scale: ScaleF16} // codes up to 31
	FormatQ6_K = Format{Bits: 6, Group: 16, Bias: 32, Super: SuperQ6K, Scale: ScaleF16}
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
	switch {
	case f.Super != SuperNone && f.Super != SuperQ4K && f.Super != SuperQ6K:
		return bad("unknown super-scale")
	case f.Super != SuperNone && f.Offset != (f.Super == SuperQ4K):
		return bad("q4_k super-scales have offsets, q6_k ones have none")
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

// Unit is what K must be a multiple of: whole groups and super-groups, or whole dwords of floats.
func (f Format) Unit() int {
	switch {
	case f.IsFloat():
		return 32 / f.Bits
	case f.Super != SuperNone:
		return SuperGroup
	}
	return f.Group
}

// BitsPerWeight is the storage of one weight, scales included.
func (f Format) BitsPerWeight() float64 {
	if f.IsFloat() {
		return float64(f.Bits)
	}
	return float64(f.Bits) + 8*float64(f.scaleBytes(f.Unit()))/float64(f.Unit())
}

// ScaleGroup is the number of weights under one 16-bit scale.
func (f Format) ScaleGroup() int {
	if f.Super != SuperNone {
		return SuperGroup
	}
	return f.Group
}

// scaleBytes is the bytes of scales and offsets of k weights of one channel.
func (f Format) scaleBytes(k int) int {
	n := 2 * (k / f.ScaleGroup())
	if f.Super != SuperNone {
		n += k / f.Group
	}
	if f.Offset {
		n *= 2
	}
	return n
}

// ScaleSet is the scales of some rows in plain form, row by row. Scales and Offsets (if the format
// has an offset) hold one 16-bit float for each ScaleGroup weights. A format with super-scales also
// has Subs and SubOffsets, one for each Group: the scale of a group is Scales*Subs, its offset
// Offsets*SubOffsets. Subs are int8 for SuperQ6K, else both are uint8.
type ScaleSet struct {
	Scales, Offsets  []uint16
	Subs, SubOffsets []uint8
}

// NewScaleSet allocates the scales of whole rows of so many weights.
func (f Format) NewScaleSet(weights int) ScaleSet {
	var s ScaleSet
	if f.IsFloat() {
		return s
	}
	s.Scales = make([]uint16, weights/f.ScaleGroup())
	if f.Offset {
		s.Offsets = make([]uint16, len(s.Scales))
	}
	if f.Super != SuperNone {
		s.Subs = make([]uint8, weights/f.Group)
		if f.Offset {
			s.SubOffsets = make([]uint8, len(s.Subs))
		}
	}
	return s
}

// Slice is the scales of weights lo to hi-1 of a set of format f: whole super-groups.
func (s ScaleSet) Slice(f Format, lo, hi int) ScaleSet {
	if s.Scales != nil {
		s.Scales = s.Scales[lo/f.ScaleGroup() : hi/f.ScaleGroup()]
	}
	if s.Offsets != nil {
		s.Offsets = s.Offsets[lo/f.ScaleGroup() : hi/f.ScaleGroup()]
	}
	if s.Subs != nil {
		s.Subs = s.Subs[lo/f.Group : hi/f.Group]
	}
	if s.SubOffsets != nil {
		s.SubOffsets = s.SubOffsets[lo/f.Group : hi/f.Group]
	}
	return s
}

// Copy copies src, a set of the same size.
func (s ScaleSet) Copy(src ScaleSet) {
	copy(s.Scales, src.Scales)
	copy(s.Offsets, src.Offsets)
	copy(s.Subs, src.Subs)
	copy(s.SubOffsets, src.SubOffsets)
}

// Fits reports whether the set has as many entries as so many weights of format f.
func (s ScaleSet) Fits(f Format, weights int) bool {
	n, sub, off, subOff := weights/f.ScaleGroup(), 0, 0, 0
	if f.Super != SuperNone {
		sub = weights / f.Group
	}
	if f.Offset {
		off, subOff = n, sub
	}
	return len(s.Scales) == n && len(s.Offsets) == off && len(s.Subs) == sub && len(s.SubOffsets) == subOff
}
