package amd64

import "fmt"

// scalarLines emits every scalar, mask and tile instruction with low and high registers and all
// addressing forms.
func scalarLines() []line {
	var out []line
	emit := func(f func(a *Asm), format string, v ...any) {
		var a Asm
		f(&a)
		out = append(out, line{fmt.Sprintf(format, v...), a.Buf})
	}
	for i, m := range addresses {
		memLines(emit, m, Reg(i*5%16))
	}
	for d := RAX; d <= R15; d++ {
		for _, s := range []Reg{RAX, RSP, RBP, RDI, R8, R12, R13, R15} {
			regLines(emit, d, s)
		}
		immLines(emit, d)
		maskLines(emit, d)
	}
	tileLines(emit)
	emit((*Asm).Ret, "ret")
	emit((*Asm).Pause, "pause")
	emit((*Asm).Vzeroupper, "vzeroupper")
	emit((*Asm).Ud2, "ud2")
	return out
}

type emitFunc func(f func(a *Asm), format string, v ...any)

var (
	names16 = []string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w"}
	names8  = []string{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"}
	ccNames = map[uint8]string{CcB: "b", CcAE: "ae", CcE: "e", CcNE: "ne", CcBE: "be", CcA: "a", CcS: "s", CcNS: "ns",
		CcP: "p", CcNP: "np", CcL: "l", CcGE: "ge", CcLE: "le", CcG: "g"}
	hints = []string{"prefetchnta", "prefetcht0", "prefetcht1", "prefetcht2"}
)

func memLines(emit emitFunc, m Mem, r Reg) {
	r64, r32, r16, r8, at := names64[r], names32[r], names16[r], names8[r], addrText(m)
	emit(func(a *Asm) { a.Load(r, m) }, "mov %s, qword ptr %s", r64, at)
	emit(func(a *Asm) { a.Load32(r, m) }, "mov %s, dword ptr %s", r32, at)
	emit(func(a *Asm) { a.Load16(r, m) }, "movzx %s, word ptr %s", r32, at)
	emit(func(a *Asm) { a.Load8(r, m) }, "movzx %s, byte ptr %s", r32, at)
	emit(func(a *Asm) { a.LoadS32(r, m) }, "movsxd %s, dword ptr %s", r64, at)
	emit(func(a *Asm) { a.LoadS16(r, m) }, "movsx %s, word ptr %s", r64, at)
	emit(func(a *Asm) { a.LoadS8(r, m) }, "movsx %s, byte ptr %s", r64, at)
	emit(func(a *Asm) { a.Store(m, r) }, "mov qword ptr %s, %s", at, r64)
	emit(func(a *Asm) { a.Store32(m, r) }, "mov dword ptr %s, %s", at, r32)
	emit(func(a *Asm) { a.Store16(m, r) }, "mov word ptr %s, %s", at, r16)
	emit(func(a *Asm) { a.Store8(m, r) }, "mov byte ptr %s, %s", at, r8)
	emit(func(a *Asm) { a.AddM(r, m) }, "add %s, qword ptr %s", r64, at)
	emit(func(a *Asm) { a.CmpM(r, m) }, "cmp %s, qword ptr %s", r64, at)
	emit(func(a *Asm) { a.Lea(r, m) }, "lea %s, %s", r64, at)
	h := uint8(r & 3)
	emit(func(a *Asm) { a.Prefetch(h, m) }, "%s byte ptr %s", hints[h], at)
}

func regLines(emit emitFunc, d, s Reg) {
	for name, f := range map[string]func(a *Asm, d, s Reg){"mov": (*Asm).Mov, "add": (*Asm).Add, "sub": (*Asm).Sub, "and": (*Asm).And,
		"or": (*Asm).Or, "xor": (*Asm).Xor, "cmp": (*Asm).Cmp, "test": (*Asm).Test, "imul": (*Asm).Imul} {
		emit(func(a *Asm) { f(a, d, s) }, "%s %s, %s", name, names64[d], names64[s])
	}
	for cc, name := range ccNames {
		emit(func(a *Asm) { a.Cmov(cc, d, s) }, "cmov%s %s, %s", name, names64[d], names64[s])
	}
	emit(func(a *Asm) { a.ImulI(d, s, 1<<20) }, "imul %s, %s, %d", names64[d], names64[s], 1<<20)
}

func immLines(emit emitFunc, d Reg) {
	r := names64[d]
	values := []int{0, 1, -1, 127, -128, 1 << 20, -1 << 31}
	if d == RAX { // its 32-bit constants have a shorter form, which assemblers choose
		values = values[:5]
	}
	for name, f := range map[string]func(a *Asm, d Reg, v int){"add": (*Asm).AddI, "or": (*Asm).OrI, "and": (*Asm).AndI,
		"sub": (*Asm).SubI, "xor": (*Asm).XorI, "cmp": (*Asm).CmpI} {
		for _, v := range values {
			emit(func(a *Asm) { f(a, d, v) }, "%s %s, %d", name, r, v)
		}
	}
	for _, n := range []int{2, 31, 63} {
		emit(func(a *Asm) { a.Shl(d, n) }, "shl %s, %d", r, n)
		emit(func(a *Asm) { a.Shr(d, n) }, "shr %s, %d", r, n)
		emit(func(a *Asm) { a.Sar(d, n) }, "sar %s, %d", r, n)
	}
	emit(func(a *Asm) { a.Inc(d) }, "inc %s", r)
	emit(func(a *Asm) { a.Dec(d) }, "dec %s", r)
	emit(func(a *Asm) { a.Neg(d) }, "neg %s", r)
	emit(func(a *Asm) { a.MovI(d, 7) }, "mov %s, 7", names32[d])
	emit(func(a *Asm) { a.MovI(d, 0xfffffffe) }, "mov %s, 0xfffffffe", names32[d])
	emit(func(a *Asm) { a.MovI(d, -2) }, "mov %s, -2", r)
	emit(func(a *Asm) { a.MovI(d, 1<<40+3) }, "movabs %s, %d", r, 1<<40+3)
}

func maskLines(emit emitFunc, r Reg) {
	k := KReg(r % 8)
	emit(func(a *Asm) { a.KmovW(k, r) }, "kmovw k%d, %s", k, names32[r])
	emit(func(a *Asm) { a.KmovD(k, r) }, "kmovd k%d, %s", k, names32[r])
	emit(func(a *Asm) { a.KmovQ(k, r) }, "kmovq k%d, %s", k, names64[r])
	emit(func(a *Asm) { a.KmovWR(r, k) }, "kmovw %s, k%d", names32[r], k)
	emit(func(a *Asm) { a.KmovDR(r, k) }, "kmovd %s, k%d", names32[r], k)
	emit(func(a *Asm) { a.KmovQR(r, k) }, "kmovq %s, k%d", names64[r], k)
	emit(func(a *Asm) { a.KortestW(k, 7-k) }, "kortestw k%d, k%d", k, 7-k)
}

func tileLines(emit emitFunc) {
	for i, m := range addresses {
		emit(func(a *Asm) { a.Ldtilecfg(m) }, "ldtilecfg %s", addrText(m))
		if m.Scale == 0 {
			continue
		}
		t := Tile(i % 8)
		emit(func(a *Asm) { a.Tileloadd(t, m) }, "tileloadd tmm%d, %s", t, addrText(m))
		emit(func(a *Asm) { a.Tileloaddt1(t, m) }, "tileloaddt1 tmm%d, %s", t, addrText(m))
		emit(func(a *Asm) { a.Tilestored(m, t) }, "tilestored %s, tmm%d", addrText(m), t)
	}
	for t := range Tile(8) {
		emit(func(a *Asm) { a.Tilezero(t) }, "tilezero tmm%d", t)
		for name, f := range map[string]func(a *Asm, c, x, y Tile){"tdpbssd": (*Asm).Tdpbssd, "tdpbsud": (*Asm).Tdpbsud,
			"tdpbusd": (*Asm).Tdpbusd, "tdpbuud": (*Asm).Tdpbuud, "tdpbf16ps": (*Asm).Tdpbf16ps} {
			x, y := (t+3)%8, (t+5)%8
			emit(func(a *Asm) { f(a, t, x, y) }, "%s tmm%d, tmm%d, tmm%d", name, t, x, y)
		}
	}
	emit((*Asm).Tilerelease, "tilerelease")
}
