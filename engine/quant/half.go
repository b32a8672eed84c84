package quant

import "math"

// F16 converts an IEEE half to float32, exactly.
func F16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	mag := uint32(h&0x7fff) << 13
	switch {
	case mag < 0x400<<13: // zero or subnormal: the mantissa counts 2^-24
		return math.Float32frombits(math.Float32bits(float32(h&0x3ff)*0x1p-24) | sign)
	case mag >= 0x7c00<<13:
		return math.Float32frombits(mag + (255-31)<<23 | sign)
	}
	return math.Float32frombits(mag + (127-15)<<23 | sign)
}

// ToF16 rounds to the nearest half, ties to even; too large becomes infinite.
func ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 2^16 and up
		return sign | 0x7c00
	case b < 0x38800000: // below the smallest normal, 2^-14: adding 0.5 leaves the count of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-(127-15)<<23+0xfff+b>>13&1)>>13)
}

// BF16 converts a bfloat16 to float32, exactly.
func BF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to the nearest bfloat16, ties to even.
func ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
