package jit

import "unsafe"

// trapFill fills b with BRK #0 (little-endian 0xd4200000), by position within its words.
func trapFill(b []byte) {
	word := [4]byte{0x00, 0x00, 0x20, 0xd4}
	for i := range b {
		b[len(b)-1-i] = word[3-i%4] // b ends at a page boundary
	}
}

// flush makes stores to b visible to instruction fetch. Line sizes come from CTR_EL0. It need not
// synchronise other cores: nothing was ever fetched from these addresses, which were not executable.
func flush(b []byte) {
	if len(b) == 0 {
		return
	}
	ctr := ctrEL0()
	start := uintptr(unsafe.Pointer(&b[0]))
	cleanInvalidate(start, start+uintptr(len(b)), 4<<(ctr>>16&15), 4<<(ctr&15))
}

func ctrEL0() uint64

func cleanInvalidate(start, end, dline, iline uintptr)
