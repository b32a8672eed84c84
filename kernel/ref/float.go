package ref

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// F16ToF32 converts IEEE binary16 bits; every value, subnormals, infinities and NaN payloads
// included, is exact.
func F16ToF32(h uint16) float32 {
	// Shift exponent and fraction into place: the value is then 2^-112 of the right one, and the
	// multiplication, exact, also normalises subnormals.
	f := math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112
	bits := math.Float32bits(f) | uint32(h&0x8000)<<16
	if h&0x7c00 == 0x7c00 {
		bits = uint32(h&0x8000)<<16 | 0x7f800000 | uint32(h&0x3ff)<<13
	}
	return math.Float32frombits(bits)
}

// F32ToF16 rounds to nearest even, overflows to infinity, and keeps a NaN a (quiet) NaN.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	abs := b & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13&0x1ff)
	case abs >= 0x477ff000: // 65520 and above round past the largest finite value
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: subnormal, in units of 2^-24
		// Adding 2^-1 puts the unit of the last place of the sum at 2^-24; the sum rounds to even.
		u := math.Float32bits(math.Float32frombits(abs)+0.5) - 0x3f000000
		return sign | uint16(u)
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16(abs>>13-(127-15)<<10)
}

// BF16ToF32 is exact.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to nearest even and keeps a NaN a (quiet) NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// ScaleToF32 decodes a stored scale, offset or 16-bit weight.
func ScaleToF32(t kernel.ScaleType, h uint16) float32 {
	if t == kernel.ScaleBF16 {
		return BF16ToF32(h)
	}
	return F16ToF32(h)
}

// F32ToScale rounds a value to a stored scale, offset or 16-bit weight.
func F32ToScale(t kernel.ScaleType, f float32) uint16 {
	if t == kernel.ScaleBF16 {
		return F32ToBF16(f)
	}
	return F32ToF16(f)
}
