package amd64

import (
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMisuse(t *testing.T) {
	tests := []struct {
		name, want string
		f          func(a *Asm)
	}{
		{"unbound label", "unbound label", func(a *Asm) { a.Jmp(a.NewLabel()) }},
		{"foreign label", "not made by this Asm", func(a *Asm) { a.Jcc(CcE, 3) }},
		{"bound twice", "bound twice", func(a *Asm) { a.Bind(a.Here()) }},
		{"high register in VEX", "need EVEX", func(a *Asm) { a.VEXOnly = true; a.Op(VADDPS, Y(1), Y(16), Y(2)) }},
		{"zmm in VEX", "need EVEX", func(a *Asm) { a.VEXOnly = true; a.Op(VADDPS, Z(1), Z(2), Z(3)) }},
		{"mask in VEX", "need EVEX", func(a *Asm) { a.Op(VPXOR, Y(1), Y(2), Y(3), KReg(1)) }},
		{"EVEX under VEXOnly", "VEXOnly is set", func(a *Asm) { a.VEXOnly = true; a.Op(VPXORD, Y(1), Y(2), Y(3)) }},
		{"broadcast", "no embedded broadcast", func(a *Asm) { a.Op(VPSHUFB, Z(1), Z(2), M(RAX, 0).Bcast()) }},
		{"length", "want zmm2", func(a *Asm) { a.Op(VADDPS, Z(1), Y(2), Z(3)) }},
		{"narrow source", "want ymm2", func(a *Asm) { a.Op(VPMOVZXBW, Z(1), Z(2)) }},
		{"no such length", "no such vector length", func(a *Asm) { a.Op(VPERMD, X(1), X(2), X(3)) }},
		{"few operands", "2 operands, want 3", func(a *Asm) { a.Op(VADDPS, Z(1), Z(2)) }},
		{"many operands", "4 operands, want 3", func(a *Asm) { a.Op(VADDPS, Z(1), Z(2), Z(3), 1) }},
		{"not an operand", "want a vector register", func(a *Asm) { a.Op(VADDPS, Z(1), "x", Z(2)) }},
		{"no vector 32", "want a vector register", func(a *Asm) { a.Op(VADDPS, Z(1), Z(2), Z(32)) }},
		{"immediate", "8-bit constant", func(a *Asm) { a.Op(VPSRLD, Z(1), Z(2), 256) }},
		{"shift of memory in VEX", "no memory form", func(a *Asm) { a.VEXOnly = true; a.Op(VPSRLD, Y(1), M(RAX, 0), 1) }},
		{"store to register", "want memory", func(a *Asm) { a.Op(VMOVUPSS, Z(1), Z(2)) }},
		{"register only", "no memory form", func(a *Asm) { a.Op(VMOVHLPS, X(1), X(2), M(RAX, 0)) }},
		{"zeroing a store", "cannot be zero-masked", func(a *Asm) { a.Op(VMOVUPSS, M(RAX, 0), Z(2), KReg(1), ZeroMask) }},
		{"zeroing without mask", "bad write mask", func(a *Asm) { a.Op(VADDPS, Z(1), Z(2), Z(3), ZeroMask) }},
		{"mask refused", "bad write mask", func(a *Asm) { a.Op(VMOVD, X(1), RAX, KReg(1)) }},
		{"gather without mask", "needs a write mask", func(a *Asm) { a.Op(VPGATHERDD, Z(1), MV(RAX, Z(2), 4, 0)) }},
		{"gather of a scalar index", "wrong kind of index", func(a *Asm) { a.Op(VPGATHERDD, Z(1), MX(RAX, RCX, 4, 0), KReg(1)) }},
		{"vector index", "wrong kind of index", func(a *Asm) { a.Op(VADDPS, Z(1), Z(2), MV(RAX, Z(2), 4, 0)) }},
		{"vector where general", "want a general register", func(a *Asm) { a.Op(VMOVD, X(1), X(2)) }},
		{"compare into vector", "want a mask register", func(a *Asm) { a.Op(VPCMPD, Z(1), Z(2), Z(3), 1) }},
		{"no base", "without a base", func(a *Asm) { a.Load(RAX, Mem{Base: NoReg}) }},
		{"rsp index", "rsp cannot be an index", func(a *Asm) { a.Load(RAX, MX(RAX, RSP, 1, 0)) }},
		{"scale", "index scale", func(a *Asm) { a.Load(RAX, MX(RAX, RCX, 3, 0)) }},
		{"far", "displacement", func(a *Asm) { a.Load(RAX, M(RAX, 1<<31)) }},
		{"far, in steps", "displacement", func(a *Asm) { a.Op(VADDPS, Y(1), Y(2), MX(RAX, RCX, 4, 1<<30).Add(1<<30)) }},
		{"scale of 256", "index scale", func(a *Asm) { a.Load(RAX, MX(RAX, RCX, 256, 0)) }},
		{"rip", "come from Const", func(a *Asm) { a.Load(RAX, M(RIP, 0)) }},
		{"scalar broadcast", "scalar instruction", func(a *Asm) { a.Load(RAX, M(RAX, 0).Bcast()) }},
		{"scalar register", "bad register", func(a *Asm) { a.Add(RAX, NoReg) }},
		{"wide constant", "no 32-bit form", func(a *Asm) { a.AddI(RAX, 1<<31) }},
		{"wide product", "no 32-bit form", func(a *Asm) { a.ImulI(RAX, RAX, 1<<31) }},
		{"shift", "shift by 64", func(a *Asm) { a.Shl(RAX, 64) }},
		{"mask register", "k8", func(a *Asm) { a.KmovW(8, RAX) }},
		{"tile", "tile", func(a *Asm) { a.Tileloadd(8, M(RAX, 0)) }},
	}
	for _, test := range tests {
		var a Asm
		a.Ret()
		test.f(&a)
		a.Ret()
		code := a.Finish()
		if err := a.Err(); code != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: code % x, error %v, want %q", test.name, code, err, test.want)
		}
	}
}

// Op takes anything without a panic, and what it refuses leaves no bytes.
func TestAnyOperands(t *testing.T) {
	operand := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any {
			return Vec{rapid.Uint8Max(40).Draw(t, "n"), rapid.Uint8Max(3).Draw(t, "l")}
		}),
		rapid.Custom(func(t *rapid.T) any { return Reg(rapid.Uint8().Draw(t, "reg")) }),
		rapid.Custom(func(t *rapid.T) any { return KReg(rapid.Uint8Max(9).Draw(t, "k")) }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int().Draw(t, "imm") }),
		rapid.Custom(func(t *rapid.T) any {
			return Mem{Base: Reg(rapid.Uint8().Draw(t, "base")), Index: Reg(rapid.Uint8().Draw(t, "index")),
				Scale: rapid.Uint8Max(9).Draw(t, "scale"), Disp: rapid.Int32().Draw(t, "disp"),
				B: rapid.Bool().Draw(t, "b"), VX: rapid.Uint8Max(4).Draw(t, "vx")}
		}),
		rapid.SampledFrom([]any{ZeroMask, nil, "x", M(RIP, 0)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SampledFrom(insts).Draw(t, "inst")
		a := Asm{VEXOnly: rapid.Bool().Draw(t, "vex")}
		a.Op(*in, rapid.SliceOfN(operand, 0, 5).Draw(t, "ops")...)
		switch n := len(a.Buf); {
		case a.Err() != nil && n != 0:
			t.Fatalf("refused, but emitted % x", a.Buf)
		case a.Err() == nil && (n < 4 || n > 15):
			t.Fatalf("%d bytes: % x", n, a.Buf)
		}
	})
}

func TestLabels(t *testing.T) {
	var a Asm
	back, fwd := a.Here(), a.NewLabel()
	a.Jmp(fwd) // e9 rel32
	a.Jcc(CcNE, back)
	a.Buf = append(a.Buf, make([]byte, 200)...)
	a.Jmp(back) // too far for the short form
	a.Bind(fwd)
	code := a.Finish()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	if a.Offset(back) != 0 || a.Offset(fwd) != len(code) || a.Offset(9) != -1 {
		t.Errorf("offsets %d, %d", a.Offset(back), a.Offset(fwd))
	}
	rel := func(at int) int { return at + 4 + int(int32(binary.LittleEndian.Uint32(code[at:]))) }
	if code[0] != 0xe9 || rel(1) != len(code) {
		t.Errorf("forward jump: % x", code[:5])
	}
	if string(code[5:7]) != "\x75\xf9" {
		t.Errorf("short jump: % x", code[5:7])
	}
	if code[207] != 0xe9 || rel(208) != 0 {
		t.Errorf("long jump back: % x", code[207:])
	}
}

func TestConst(t *testing.T) {
	var a Asm
	four, wide := a.Const([]byte{1, 2, 3, 4}), a.Const(make([]byte, 64))
	if a.Const([]byte{1, 2, 3, 4}) != four {
		t.Error("equal constants were not shared")
	}
	a.Op(VPADDD, Z(0), Z(0), four.Bcast())          // 10 bytes
	a.Op(VPTERNLOGD, Z(0), Z(1), wide, 0x96)        // an immediate follows the displacement
	a.Op(VINSERTI32X4, Z(0), Z(1), wide.Add(16), 1) //
	a.Load(RAX, wide.Add(8))                        //
	a.Ret()
	code := a.Finish()
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	if len(code) != 64+128 || string(code[64:68]) != "\x01\x02\x03\x04" {
		t.Fatalf("%d bytes: % x", len(code), code)
	}
	want := []struct{ disp, end, target int }{{6, 10, 64}, {16, 21, 128}, {27, 32, 144}, {35, 39, 136}}
	for _, w := range want {
		if got := w.end + int(int32(binary.LittleEndian.Uint32(code[w.disp:]))); got != w.target {
			t.Errorf("displacement at %d leads to %d, want %d", w.disp, got, w.target)
		}
	}
	if string(a.Finish()) != string(code) {
		t.Error("a second Finish changed the code")
	}
}

func TestAlign(t *testing.T) {
	for n := range 65 {
		var a Asm
		a.Buf = make([]byte, n)
		a.Align(32)
		if len(a.Buf)%32 != 0 || len(a.Buf)-n >= 32 {
			t.Errorf("%d padded to %d", n, len(a.Buf))
		}
	}
}
