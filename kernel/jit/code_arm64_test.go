package jit

import (
	"testing"

	asm "github.com/tilewright/tilewright/kernel/asm/arm64"
)

// sumCode adds up Blocks blocks of 32 bytes at Src, as dot products with ones of their bytes' low
// halves; a block holds dwords below 128, so that this is their sum. A second entry only copies 8
// bytes from Src to Dst.
func sumCode(t testing.TB) (code []byte, copyEntry int) {
	var a asm.Asm
	a.Ldr(1, 0, 0)
	a.Ldr(2, 0, 8)
	a.Ldr(3, 0, 16)
	for v := asm.V(0); v < 32; v++ {
		a.Movi(v, 0xff)
	}
	a.Movi(30, 1)
	a.Eor(0, 0, 0)
	a.Eor(1, 1, 1)
	loop := a.Here()
	a.LdrQ(2, 1, 0)
	a.LdrQ(3, 1, 16)
	a.Sdot(0, 2, 30)
	a.Sdot(1, 3, 30)
	a.AddI(1, 1, 32)
	a.SubI(3, 3, 1)
	a.Cbnz(3, loop)
	a.StrQ(0, 2, 0)
	a.StrQ(1, 2, 16)
	for x := asm.X(0); x < 28; x++ {
		if x != 18 {
			a.Movz(x, 0xffff)
		}
	}
	a.Ret()
	copyEntry = len(a.Buf)
	a.Ldr(1, 0, 0)
	a.Ldr(2, 0, 8)
	a.Ldr(3, 1, 0)
	a.Str(3, 2, 0)
	a.Ret()
	code = a.Finish()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	return code, copyEntry
}

// answer returns its own argument block's first field plus n: fresh code for each n.
func answer(t testing.TB, n int) []byte {
	var a asm.Asm
	a.Ldr(1, 0, 0)
	a.AddI(1, 1, uint32(n))
	a.Str(1, 0, 0)
	a.Ret()
	return a.Finish()
}
