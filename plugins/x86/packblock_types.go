package x86

import "github.com/tilewright/tilewright/kernel"

// This file describes GGUF's block types (ggml-common.h) to the generator of packblock.go. All of
// them keep the bits of consecutive weights in consecutive bytes, so that four weights are a dword at
// some shift; only the fifth bits of Q5_0 and Q5_1 are a bit mask.

// term is some bits of four bytes: a dword, its bytes rearranged by spread if that is not 0 (byte i
// is taken from byte spread>>8i&3), shifted right (left if negative), under a mask.
type term struct {
	at     int // of codes: byte offset in the block of 16 weights' dwords; of sub-scales: dword of subsAt
	spread uint32
	shift  int
	mask   uint32
}

// each is a term with the same mask for every byte.
func each(at, shift int, mask uint8) term {
	return term{at: at, shift: shift, mask: uint32(mask) * ones}
}

const ones = 0x01010101

// step is the codes of 16 weights from k on, the OR of one or two terms.
type step struct {
	k     int
	terms []term
}

// subs is four sub-scales (or sub-offsets) from group g on, the OR of some terms, add added to each.
type subs struct {
	g      int
	offset bool
	terms  []term
	add    uint8
}

// blockCode is a block type. Steps are in an order that uses a loaded vector again soon.
type blockCode struct {
	steps []step
	fifth int  // offset of the mask of fifth bits, 0 for none
	add   byte // to each code
	iq4   bool // codes are looked up

	scales halves
	subsAt int // offset of 16 bytes that hold sub-scales
	subs   []subs
}

// halves says where the scale is, and the offset if there is one: in the last dword of the 16 bytes
// at an offset, or the first one.
type halves struct {
	at     int
	last   bool // the last dword
	upper  bool // its upper half alone
	negate bool // the offset is stored positive
}

var blockCodes = map[kernel.Block]blockCode{
	kernel.BlockQ4_0:  {steps: nibbles(2, 1)},
	kernel.BlockQ4_1:  {steps: nibbles(4, 1)},
	kernel.BlockQ5_0:  {steps: nibbles(6, 1), fifth: 2, add: 128 - 16},
	kernel.BlockQ5_1:  {steps: nibbles(8, 1), fifth: 4},
	kernel.BlockQ8_0:  {steps: []step{{0, []term{each(2, 0, 0xff)}}, {16, []term{each(18, 0, 0xff)}}}, add: 128},
	kernel.BlockIQ4NL: {steps: nibbles(2, 1), iq4: true},
	kernel.BlockIQ4XS: {steps: nibbles(8, 8), iq4: true, subs: iq4xsSubs()},
	kernel.BlockQ2_K:  {steps: twoBits(16), scales: halves{at: 68, last: true, negate: true}, subs: q2kSubs()},
	kernel.BlockQ3_K:  {steps: q3kSteps(), add: 4, scales: halves{at: 94, last: true, upper: true}, subsAt: 92, subs: q3kSubs()},
	kernel.BlockQ4_K:  {steps: q4kSteps(16), scales: halves{negate: true}, subs: q4kSubs()},
	kernel.BlockQ5_K:  {steps: q5kSteps(), scales: halves{negate: true}, subs: q4kSubs()},
	kernel.BlockQ6_K:  {steps: q6kSteps(), scales: halves{at: 194, last: true, upper: true}, subsAt: 192, subs: q6kSubs()},
}

// nibbles is n times 32 weights in 16 bytes: low nibbles, then high ones.
func nibbles(at, n int) (out []step) {
	for i := range n {
		for half := range 2 {
			out = append(out, step{32*i + 16*half, []term{each(at+16*i, 4*half, 15)}})
		}
	}
	return out
}

// q4kSteps is 4 times 64 weights in 32 bytes.
func q4kSteps(at int) (out []step) {
	for l := 0; l < 32; l += 16 {
		for i := range 4 {
			for half := range 2 {
				out = append(out, step{64*i + 32*half + l, []term{each(at+32*i+l, 4*half, 15)}})
			}
		}
	}
	return out
}

// q5kSteps adds bit j of 32 bytes to the j-th 32 weights.
func q5kSteps() []step {
	out := q4kSteps(48)
	for i, s := range out {
		out[i].terms = append(s.terms, each(16+s.k%32, s.k/32-4, 0x10))
	}
	return out
}

// q6kSteps is two times 128 weights: 64 bytes of low nibbles, 32 of two upper bits.
func q6kSteps() (out []step) {
	for h := range 2 {
		for l := 0; l < 32; l += 16 {
			for _, j := range []int{0, 2, 1, 3} {
				out = append(out, step{128*h + 32*j + l, []term{each(64*h+32*(j%2)+l, j/2*4, 15), each(128+32*h+l, 2*j-4, 0x30)}})
			}
		}
	}
	return out
}

// twoBits is two times 128 weights in 32 bytes.
func twoBits(at int) (out []step) {
	for l := 0; l < 32; l += 16 {
		for h := range 2 {
			for j := range 4 {
				out = append(out, step{128*h + 32*j + l, []term{each(at+32*h+l, 2*j, 3)}})
			}
		}
	}
	return out
}

// q3kSteps adds bit j of the first 32 bytes to the j-th 32 weights.
func q3kSteps() []step {
	out := twoBits(32)
	for i, s := range out {
		out[i].terms = append(s.terms, each(s.k%32, s.k/32-2, 4))
	}
	return out
}

// q4kSubs: six bits each (get_scale_min_k4), after d and dmin.
func q4kSubs() []subs {
	return []subs{
		{g: 0, terms: []term{each(1, 0, 0x3f)}},
		{g: 0, offset: true, terms: []term{each(2, 0, 0x3f)}},
		{g: 4, terms: []term{each(3, 0, 0x0f), each(1, 2, 0x30)}},
		{g: 4, offset: true, terms: []term{each(3, 4, 0x0f), each(2, 2, 0x30)}},
	}
}

// q2kSubs: scale and offset in a nibble each.
func q2kSubs() (out []subs) {
	for i := range 4 {
		out = append(out, subs{g: 4 * i, terms: []term{each(i, 0, 15)}}, subs{g: 4 * i, offset: true, terms: []term{each(i, 4, 15)}})
	}
	return out
}

// q3kSubs: low nibbles in two dwords, upper bits in a third; 32 stands for 0.
func q3kSubs() (out []subs) {
	for i := range 4 {
		out = append(out, subs{g: 4 * i, terms: []term{each(1+i%2, i/2*4, 15), each(3, 2*i-4, 0x30)}, add: 256 - 32})
	}
	return out
}

// q6kSubs: bytes.
func q6kSubs() (out []subs) {
	for i := range 4 {
		out = append(out, subs{g: 4 * i, terms: []term{each(i, 0, 0xff)}})
	}
	return out
}

// iq4xsSubs: a dword of eight low nibbles, 16 bits of eight upper pairs; 32 stands for 0.
func iq4xsSubs() (out []subs) {
	for i := range uint32(2) {
		low, high := 0x01010000+i*2*ones, (2+i)*ones
		out = append(out, subs{g: int(4 * i), add: 256 - 32, terms: []term{
			{1, low, 0, 0x000f000f}, {1, low, 4, 0x0f000f00},
			{0, high, -4, 0x00000030}, {0, high, -2, 0x00003000}, {0, high, 0, 0x00300000}, {0, high, 2, 0x30000000},
		}})
	}
	return out
}
