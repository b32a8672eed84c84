package jit

import (
	"testing"

	asm "github.com/tilewright/tilewright/kernel/asm/amd64"
)

// sumCode adds up Blocks blocks of 32 bytes at Src, dword by dword, into Dst. It clobbers every
// vector register and every general one but RSP and RBP, as leaf/2 allows. A second entry only
// copies 8 bytes from Src to Dst.
func sumCode(t testing.TB) (code []byte, copyEntry int) {
	a := asm.Asm{VEXOnly: true}
	a.Load(asm.RSI, asm.M(asm.RDI, 0))
	a.Load(asm.RDX, asm.M(asm.RDI, 8))
	a.Load(asm.RCX, asm.M(asm.RDI, 16))
	for v := range 16 {
		a.Op(asm.VPCMPEQD, asm.Y(v), asm.Y(v), asm.Y(v))
	}
	for r := asm.RAX; r <= asm.R15; r++ {
		if r != asm.RSP && r != asm.RBP && r != asm.RSI && r != asm.RDX && r != asm.RCX {
			a.MovI(r, -1)
		}
	}
	a.Op(asm.VPXOR, asm.Y(0), asm.Y(0), asm.Y(0))
	loop := a.Here()
	a.Op(asm.VPADDD, asm.Y(0), asm.Y(0), asm.M(asm.RSI, 0))
	a.AddI(asm.RSI, 32)
	a.Dec(asm.RCX)
	a.Jcc(asm.CcNE, loop)
	a.Op(asm.VMOVUPSS, asm.M(asm.RDX, 0), asm.Y(0))
	a.Ret()
	a.Align(16)
	entry := a.Here()
	a.Load(asm.RSI, asm.M(asm.RDI, 0))
	a.Load(asm.RDX, asm.M(asm.RDI, 8))
	a.Load(asm.RAX, asm.M(asm.RSI, 0))
	a.Store(asm.M(asm.RDX, 0), asm.RAX)
	a.Ret()
	code = a.Finish()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	return code, a.Offset(entry)
}

// answer returns its own argument block's first field plus n: fresh code for each n.
func answer(t testing.TB, n int) []byte {
	var a asm.Asm
	a.Load(asm.RAX, asm.M(asm.RDI, 0))
	a.AddI(asm.RAX, n)
	a.Store(asm.M(asm.RDI, 0), asm.RAX)
	a.Ret()
	return a.Finish()
}
