package quant

import (
	"encoding/binary"

	"github.com/tilewright/tilewright/kernel"
)

// Blocks of 32 weights (ggml-quants.c, dequantize_row_*). Eight codes at a time in a uint64; in the
// 4- and 5-bit types the low nibbles of 16 bytes are weights 0..15, the high ones 16..31.

const (
	lowNibbles = 0x0f0f0f0f0f0f0f0f
	highBits   = 0x8080808080808080
	ones       = 0x0101010101010101
)

var le = binary.LittleEndian

// nibbles spreads 16 bytes at b over 32 codes.
func nibbles(b []byte, q []uint8) {
	b, q = b[:16], q[:32]
	v0, v1 := le.Uint64(b), le.Uint64(b[8:])
	le.PutUint64(q, v0&lowNibbles)
	le.PutUint64(q[8:], v1&lowNibbles)
	le.PutUint64(q[16:], v0>>4&lowNibbles)
	le.PutUint64(q[24:], v1>>4&lowNibbles)
}

func q4_0(b []byte, q []uint8, s, _ []uint16) {
	for i := range s {
		blk := b[18*i:][:18]
		s[i] = le.Uint16(blk)
		nibbles(blk[2:], q[32*i:])
	}
}

func q4_1(b []byte, q []uint8, s, m []uint16) {
	for i := range s {
		blk := b[20*i:][:20]
		s[i], m[i] = le.Uint16(blk), le.Uint16(blk[2:])
		nibbles(blk[4:], q[32*i:])
	}
}

func q8_0(b []byte, q []uint8, s, _ []uint16) {
	for i := range s {
		blk, out := b[34*i:][:34], q[32*i:][:32]
		s[i] = le.Uint16(blk)
		for j := 0; j < 32; j += 8 {
			le.PutUint64(out[j:], le.Uint64(blk[2+j:])^highBits)
		}
	}
}

// fifthBits ors bit j of h, as 16, into code j and adds the same number to every code.
func fifthBits(h uint32, q []uint8, add uint64) {
	q = q[:32]
	for j := 0; j < 32; j += 8 {
		// byte i holds bit i of the eight; adding 127 carries into bit 7 of the bytes that are not 0
		bits := (uint64(h>>j&0xff)*ones&0x8040201008040201 + highBits - ones) & highBits >> 3
		le.PutUint64(q[j:], (le.Uint64(q[j:])|bits)+add*ones)
	}
}

// q5_0: w = d*(q - 16); codes are moved to Bias 128.
func q5_0(b []byte, q []uint8, s, _ []uint16) {
	for i := range s {
		blk := b[22*i:][:22]
		s[i] = le.Uint16(blk)
		nibbles(blk[6:], q[32*i:])
		fifthBits(le.Uint32(blk[2:]), q[32*i:], 128-16)
	}
}

func q5_1(b []byte, q []uint8, s, m []uint16) {
	for i := range s {
		blk := b[24*i:][:24]
		s[i], m[i] = le.Uint16(blk), le.Uint16(blk[2:])
		nibbles(blk[8:], q[32*i:])
		fifthBits(le.Uint32(blk[4:]), q[32*i:], 0)
	}
}

// iq4Table is ggml's kvalues_iq4nl plus 128.
var iq4Table = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}

// iq4 looks up the nibbles of 16 bytes.
func iq4(b []byte, q []uint8) {
	b, q = b[:16], q[:32]
	for j, v := range b {
		q[j], q[j+16] = iq4Table[v&15], iq4Table[v>>4]
	}
}

func iq4nl(b []byte, q []uint8, s, _ []uint16) {
	for i := range s {
		blk := b[18*i:][:18]
		s[i] = le.Uint16(blk)
		iq4(blk[2:], q[32*i:])
	}
}

func iq4xs(b []byte, q []uint8, s kernel.ScaleSet) {
	s.Scales[0] = le.Uint16(b)
	high := le.Uint16(b[2:])
	for i := range 8 {
		s.Subs[i] = b[4+i/2]>>(i%2*4)&15 | uint8(high>>(2*i)&3)<<4 - 32
		iq4(b[8+16*i:], q[32*i:])
	}
}
