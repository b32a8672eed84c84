package ref

import "github.com/tilewright/tilewright/kernel"

// K-quants: super-blocks of 256 weights (ggml-quants.c, dequantize_row_q*_K). A minimum is subtracted:
// the stored offset is minus it.

const signBit = 0x8000

// field returns, of eight bytes from i on, the bits under mask (of one byte) after a shift right.
func field(b []byte, i, shift int, mask uint64) uint64 {
	return le.Uint64(b[i:]) >> shift & (mask * ones)
}

// subScales unpacks d, dmin and the eight 6-bit scales and minima of Q4_K and Q5_K (get_scale_min_k4).
func subScales(b []byte, s kernel.ScaleSet) {
	s.Scales[0], s.Offsets[0] = le.Uint16(b), le.Uint16(b[2:])^signBit
	p := b[4:16]
	for j := range 8 {
		s.Subs[j], s.SubOffsets[j] = p[j%4]&63, p[j%4+4]&63
		if j >= 4 {
			s.Subs[j], s.SubOffsets[j] = p[j+4]&15|p[j-4]>>6<<4, p[j+4]>>4|p[j]>>6<<4
		}
	}
}

// q4k: 32 bytes hold 64 weights, low nibbles first.
func q4k(b []byte, q []uint8, s kernel.ScaleSet) {
	subScales(b, s)
	for i := range 4 {
		ql, out := b[16+32*i:][:32], q[64*i:][:64]
		for l := 0; l < 32; l += 8 {
			le.PutUint64(out[l:], field(ql, l, 0, 15))
			le.PutUint64(out[32+l:], field(ql, l, 4, 15))
		}
	}
}

// q5k: as q4k, with the fifth bit of group j in bit j of 32 bytes.
func q5k(b []byte, q []uint8, s kernel.ScaleSet) {
	subScales(b, s)
	qh := b[16:48]
	for i := range 4 {
		ql, out := b[48+32*i:][:32], q[64*i:][:64]
		for l := 0; l < 32; l += 8 {
			le.PutUint64(out[l:], field(ql, l, 0, 15)|field(qh, l, 2*i, 1)<<4)
			le.PutUint64(out[32+l:], field(ql, l, 4, 15)|field(qh, l, 2*i+1, 1)<<4)
		}
	}
}

// q6k: halves of 128 weights from 64 bytes of low nibbles and 32 of upper bits; 16 signed scales.
func q6k(b []byte, q []uint8, s kernel.ScaleSet) {
	s.Scales[0] = le.Uint16(b[208:])
	copy(s.Subs, b[192:208])
	for h := range 2 {
		ql, qh, out := b[64*h:][:64], b[128+32*h:][:32], q[128*h:][:128]
		for l := 0; l < 32; l += 8 {
			le.PutUint64(out[l:], field(ql, l, 0, 15)|field(qh, l, 0, 3)<<4)
			le.PutUint64(out[32+l:], field(ql, 32+l, 0, 15)|field(qh, l, 2, 3)<<4)
			le.PutUint64(out[64+l:], field(ql, l, 4, 15)|field(qh, l, 4, 3)<<4)
			le.PutUint64(out[96+l:], field(ql, 32+l, 4, 15)|field(qh, l, 6, 3)<<4)
		}
	}
}

// q2k: halves of 128 weights from 32 bytes, two bits at a time; scale and minimum in a nibble each.
func q2k(b []byte, q []uint8, s kernel.ScaleSet) {
	s.Scales[0], s.Offsets[0] = le.Uint16(b[80:]), le.Uint16(b[82:])^signBit
	for j := range 16 {
		s.Subs[j], s.SubOffsets[j] = b[j]&15, b[j]>>4
	}
	twoBits(b[16:80], nil, q)
}

// q3k: as q2k with a third bit, inverted, in a mask, and 6-bit scales: w = d*(sc-32)*(q - 4). Codes
// are moved to Bias 8.
func q3k(b []byte, q []uint8, s kernel.ScaleSet) {
	s.Scales[0] = le.Uint16(b[108:])
	p := b[96:108]
	for j := range 16 {
		sc := p[j%8]>>(j/8*4)&15 | p[8+j%4]>>(j/4*2)&3<<4
		s.Subs[j] = sc - 32
	}
	twoBits(b[32:96], b[:32], q)
}

// twoBits spreads 64 bytes over 256 codes; bit j of mask, if there is one, is bit 2 of the codes of
// the j-th 32, and 4 is added.
func twoBits(b, mask []byte, q []uint8) {
	for j := range 8 {
		in, out := b[j/4*32:][:32], q[32*j:][:32]
		for l := 0; l < 32; l += 8 {
			v := field(in, l, j%4*2, 3)
			if mask != nil {
				v = (v | field(mask, l, j, 1)<<2) + 4*ones
			}
			le.PutUint64(out[l:], v)
		}
	}
}
