package ref

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// decoder unpacks whole blocks to codes, one byte each in the order of k, and the scales of the block
// type's format.
type decoder func(b []byte, q []uint8, s kernel.ScaleSet)

var decoders = map[kernel.Block]decoder{
	kernel.BlockQ4_0: q4_0, kernel.BlockQ4_1: q4_1, kernel.BlockQ5_0: q5_0, kernel.BlockQ5_1: q5_1,
	kernel.BlockQ8_0: q8_0, kernel.BlockIQ4NL: iq4nl,
	kernel.BlockQ2_K: supers(kernel.BlockQ2_K, q2k), kernel.BlockQ3_K: supers(kernel.BlockQ3_K, q3k),
	kernel.BlockQ4_K: supers(kernel.BlockQ4_K, q4k), kernel.BlockQ5_K: supers(kernel.BlockQ5_K, q5k),
	kernel.BlockQ6_K: supers(kernel.BlockQ6_K, q6k), kernel.BlockIQ4XS: supers(kernel.BlockIQ4XS, iq4xs),
}

// supers decodes blocks of a type one by one.
func supers(t kernel.Block, one decoder) decoder {
	size, weights, f := t.Bytes(), t.Weights(), t.Format()
	return func(b []byte, q []uint8, s kernel.ScaleSet) {
		for i := range s.Scales {
			one(b[i*size:][:size], q[i*weights:][:weights], s.Slice(f, i*weights, (i+1)*weights))
		}
	}
}

// decoderOf returns the decoder of stored rows to a format and the weights it takes at a time, nil if
// there is none.
func decoderOf(t kernel.Block, f kernel.Format) (decoder, int) {
	switch {
	case !t.Packs(f):
		return nil, 0
	case t.Format().IsFloat():
		return floatsDecoder(t, f), max(t.Weights(), f.Group)
	}
	return decoders[t], t.Weights()
}

// Decode unpacks whole blocks to codes of a format that t packs, one byte each in the order of k, and
// their scales. q and s are sized for as many weights as src has. Of floats that cannot be quantised
// (QuantizeRow) a scale becomes NaN.
func Decode(t kernel.Block, f kernel.Format, src []byte, q []uint8, s kernel.ScaleSet) error {
	decode, unit := decoderOf(t, f)
	if decode == nil {
		return fmt.Errorf("ref: blocks %q do not make %s", t, f)
	}
	n := len(src) / t.Bytes() * t.Weights()
	if len(src)%t.Bytes() != 0 || n%unit != 0 {
		return fmt.Errorf("ref: %d bytes of %s are not whole groups of %d weights", len(src), t, unit)
	}
	if len(q) != n || !s.Fits(f, n) {
		return fmt.Errorf("ref: %d weights of %s need as many codes and their scales, not %d and %d", n, t, len(q), len(s.Scales))
	}
	decode(src, q, s)
	return nil
}

// packBlocks is OpPack with a Source.
func packBlocks(p kernel.Problem) kernel.Func {
	l, f := p.Layout, p.Format
	decode, unit := decoderOf(p.Source, f)
	size := unit / p.Source.Weights() * p.Source.Bytes()
	codes, scales := l.PanelBytes(f, unit), l.ScaleBytes(f, unit)
	return func(args unsafe.Pointer) {
		a := *(*kernel.PackArgs)(args)
		n := int(a.K) / unit
		q, s := make([]uint8, unit), f.NewScaleSet(unit)
		for c, off := range view[int64](a.Rows, l.NR()) {
			row := view[byte](unsafe.Add(a.Src, off), n*size)
			for i := range n {
				decode(row[i*size:][:size], q, s)
				packCodes(view[byte](unsafe.Add(a.Dst, i*codes), codes), l, f, c, q)
				packRowScales(view[byte](unsafe.Add(a.Scales, i*scales), scales), l, f, c, s)
			}
		}
	}
}

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

func q4_0(b []byte, q []uint8, s kernel.ScaleSet) {
	for i := range s.Scales {
		blk := b[18*i:][:18]
		s.Scales[i] = le.Uint16(blk)
		nibbles(blk[2:], q[32*i:])
	}
}

func q4_1(b []byte, q []uint8, s kernel.ScaleSet) {
	for i := range s.Scales {
		blk := b[20*i:][:20]
		s.Scales[i], s.Offsets[i] = le.Uint16(blk), le.Uint16(blk[2:])
		nibbles(blk[4:], q[32*i:])
	}
}

func q8_0(b []byte, q []uint8, s kernel.ScaleSet) {
	for i := range s.Scales {
		blk, out := b[34*i:][:34], q[32*i:][:32]
		s.Scales[i] = le.Uint16(blk)
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
func q5_0(b []byte, q []uint8, s kernel.ScaleSet) {
	for i := range s.Scales {
		blk := b[22*i:][:22]
		s.Scales[i] = le.Uint16(blk)
		nibbles(blk[6:], q[32*i:])
		fifthBits(le.Uint32(blk[2:]), q[32*i:], 128-16)
	}
}

func q5_1(b []byte, q []uint8, s kernel.ScaleSet) {
	for i := range s.Scales {
		blk := b[24*i:][:24]
		s.Scales[i], s.Offsets[i] = le.Uint16(blk), le.Uint16(blk[2:])
		nibbles(blk[8:], q[32*i:])
		fifthBits(le.Uint32(blk[4:]), q[32*i:], 0)
	}
}

// iq4 looks up the nibbles of 16 bytes.
func iq4(b []byte, q []uint8) {
	b, q = b[:16], q[:32]
	for j, v := range b {
		q[j], q[j+16] = kernel.IQ4Values[v&15], kernel.IQ4Values[v>>4]
	}
}

func iq4nl(b []byte, q []uint8, s kernel.ScaleSet) {
	for i := range s.Scales {
		blk := b[18*i:][:18]
		s.Scales[i] = le.Uint16(blk)
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
