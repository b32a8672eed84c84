// Package amd64 is a tiny table-driven x86-64 encoder (VEX, EVEX, AMX tiles and the
// handful of scalar instructions that kernels need). One table row per instruction.
package amd64

import (
	"encoding/binary"
	"fmt"
)

type Reg uint8 // 64-bit general registers

const (
	RAX Reg = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
	NoReg Reg = 255
)

type Vec struct{ N, L uint8 } // L: 0 xmm, 1 ymm, 2 zmm
type KReg uint8
type Tile uint8

func X(n int) Vec { return Vec{uint8(n), 0} }
func Y(n int) Vec { return Vec{uint8(n), 1} }
func Z(n int) Vec { return Vec{uint8(n), 2} }

// Mem is a memory operand. B requests EVEX embedded broadcast.
type Mem struct {
	Base, Index Reg
	Scale       uint8 // 0 = no index, else 1,2,4,8
	Disp        int32
	B           bool
}

func M(base Reg, disp int) Mem     { return Mem{Base: base, Disp: int32(disp)} }
func MX(b, i Reg, s, disp int) Mem { return Mem{Base: b, Index: i, Scale: uint8(s), Disp: int32(disp)} }
func (m Mem) Bcast() Mem           { m.B = true; return m }

type tup uint8 // EVEX disp8*N tuple
const (
	fv  tup = iota // full vector (broadcastable): N=VL or element size
	fvm            // full mem: N=VL
	hvm            // half mem: N=VL/2
	hv             // half vector (broadcastable)
	qvm            // quarter
	t1             // scalar, N=element size
	m16            // 128-bit memory operand
)

type form uint8

const (
	rvm  form = iota // dst, src1, src2/mem
	rm               // dst, src/mem
	mr               // mem/dst, src (store)
	vmi              // dst(vvvv), src/mem, imm8, opcode extension
	rvmi             // dst, src1, src2/mem, imm8
	rmi              // dst, src/mem, imm8
	mri              // mem/dst, src, imm8
)

// Inst is one table row. P: mandatory prefix 0/66/F3/F2 = 0..3; Map: 1=0F 2=0F38 3=0F3A 5,6=FP16.
type Inst struct {
	Name      string
	Map, P, W uint8
	Op        uint8
	F         form
	T         tup
	E         uint8 // element bytes (broadcast / tuple1)
	Ext       uint8 // modrm.reg extension for vmi
	V         uint8 // 0: EVEX only, 1: EVEX or VEX, 2: VEX only
	RmL       int8  // width of register rm relative to L: 0 same, -1 half, -2 quarter, -9 always xmm
}

var (
	VMOVDQU32       = Inst{"vmovdqu32", 1, 2, 0, 0x6f, rm, fvm, 4, 0, 0, 0}
	VMOVDQU32S      = Inst{"vmovdqu32", 1, 2, 0, 0x7f, mr, fvm, 4, 0, 0, 0}
	VMOVDQU         = Inst{"vmovdqu", 1, 2, 0, 0x6f, rm, fvm, 4, 0, 2, 0}
	VMOVDQUS        = Inst{"vmovdqu", 1, 2, 0, 0x7f, mr, fvm, 4, 0, 2, 0}
	VMOVUPS         = Inst{"vmovups", 1, 0, 0, 0x10, rm, fvm, 4, 0, 1, 0}
	VMOVUPSS        = Inst{"vmovups", 1, 0, 0, 0x11, mr, fvm, 4, 0, 1, 0}
	VMOVNTPS        = Inst{"vmovntps", 1, 0, 0, 0x2b, mr, fvm, 4, 0, 1, 0}
	VMOVNTDQA       = Inst{"vmovntdqa", 2, 1, 0, 0x2a, rm, fvm, 4, 0, 1, 0}
	VPANDD          = Inst{"vpandd", 1, 1, 0, 0xdb, rvm, fv, 4, 0, 0, 0}
	VPAND           = Inst{"vpand", 1, 1, 0, 0xdb, rvm, fvm, 4, 0, 2, 0}
	VPORD           = Inst{"vpord", 1, 1, 0, 0xeb, rvm, fv, 4, 0, 0, 0}
	VPXORD          = Inst{"vpxord", 1, 1, 0, 0xef, rvm, fv, 4, 0, 0, 0}
	VPXOR           = Inst{"vpxor", 1, 1, 0, 0xef, rvm, fvm, 4, 0, 2, 0}
	VXORPS          = Inst{"vxorps", 1, 0, 0, 0x57, rvm, fv, 4, 0, 1, 0}
	VPTERNLOGD      = Inst{"vpternlogd", 3, 1, 0, 0x25, rvmi, fv, 4, 0, 0, 0}
	VPSRLD          = Inst{"vpsrld", 1, 1, 0, 0x72, vmi, fv, 4, 2, 1, 0}
	VPSRAD          = Inst{"vpsrad", 1, 1, 0, 0x72, vmi, fv, 4, 4, 1, 0}
	VPSLLD          = Inst{"vpslld", 1, 1, 0, 0x72, vmi, fv, 4, 6, 1, 0}
	VPSRLW          = Inst{"vpsrlw", 1, 1, 0, 0x71, vmi, fvm, 2, 2, 1, 0}
	VPSLLW          = Inst{"vpsllw", 1, 1, 0, 0x71, vmi, fvm, 2, 6, 1, 0}
	VPADDD          = Inst{"vpaddd", 1, 1, 0, 0xfe, rvm, fv, 4, 0, 1, 0}
	VPADDB          = Inst{"vpaddb", 1, 1, 0, 0xfc, rvm, fvm, 1, 0, 1, 0}
	VPSUBD          = Inst{"vpsubd", 1, 1, 0, 0xfa, rvm, fv, 4, 0, 1, 0}
	VPMULLD         = Inst{"vpmulld", 2, 1, 0, 0x40, rvm, fv, 4, 0, 1, 0}
	VPSHUFB         = Inst{"vpshufb", 2, 1, 0, 0x00, rvm, fvm, 1, 0, 1, 0}
	VPERMB          = Inst{"vpermb", 2, 1, 0, 0x8d, rvm, fvm, 1, 0, 0, 0}
	VPERMW          = Inst{"vpermw", 2, 1, 1, 0x8d, rvm, fvm, 2, 0, 0, 0}
	VPERMPS         = Inst{"vpermps", 2, 1, 0, 0x16, rvm, fv, 4, 0, 1, 0}
	VPERMD          = Inst{"vpermd", 2, 1, 0, 0x36, rvm, fv, 4, 0, 1, 0}
	VPDPBUSD        = Inst{"vpdpbusd", 2, 1, 0, 0x50, rvm, fv, 4, 0, 1, 0}
	VPDPWSSD        = Inst{"vpdpwssd", 2, 1, 0, 0x52, rvm, fv, 4, 0, 1, 0}
	VDPBF16PS       = Inst{"vdpbf16ps", 2, 2, 0, 0x52, rvm, fv, 4, 0, 0, 0}
	VFMADD231PS     = Inst{"vfmadd231ps", 2, 1, 0, 0xb8, rvm, fv, 4, 0, 1, 0}
	VFMADD213PS     = Inst{"vfmadd213ps", 2, 1, 0, 0xa8, rvm, fv, 4, 0, 1, 0}
	VFMADD231PH     = Inst{"vfmadd231ph", 6, 1, 0, 0xb8, rvm, fv, 2, 0, 0, 0}
	VADDPH          = Inst{"vaddph", 5, 0, 0, 0x58, rvm, fv, 2, 0, 0, 0}
	VCVTPH2PSX      = Inst{"vcvtph2psx", 6, 1, 0, 0x13, rm, hv, 2, 0, 0, -1}
	VADDPS          = Inst{"vaddps", 1, 0, 0, 0x58, rvm, fv, 4, 0, 1, 0}
	VMULPS          = Inst{"vmulps", 1, 0, 0, 0x59, rvm, fv, 4, 0, 1, 0}
	VCVTDQ2PS       = Inst{"vcvtdq2ps", 1, 0, 0, 0x5b, rm, fv, 4, 0, 1, 0}
	VCVTPS2DQ       = Inst{"vcvtps2dq", 1, 1, 0, 0x5b, rm, fv, 4, 0, 1, 0}
	VCVTPH2PS       = Inst{"vcvtph2ps", 2, 1, 0, 0x13, rm, hvm, 2, 0, 1, -1}
	VCVTPS2PH       = Inst{"vcvtps2ph", 3, 1, 0, 0x1d, mri, hvm, 2, 0, 1, -1}
	VCVTNE2PS2BF16  = Inst{"vcvtne2ps2bf16", 2, 3, 0, 0x72, rvm, fv, 4, 0, 0, 0}
	VCVTNEPS2BF16   = Inst{"vcvtneps2bf16", 2, 2, 0, 0x72, rm, fv, 4, 0, 0, 0} // dst is half width
	VBROADCASTSS    = Inst{"vbroadcastss", 2, 1, 0, 0x18, rm, t1, 4, 0, 1, -9}
	VPBROADCASTD    = Inst{"vpbroadcastd", 2, 1, 0, 0x58, rm, t1, 4, 0, 1, -9}
	VPBROADCASTW    = Inst{"vpbroadcastw", 2, 1, 0, 0x79, rm, t1, 2, 0, 1, -9}
	VBROADCASTI32X4 = Inst{"vbroadcasti32x4", 2, 1, 0, 0x5a, rm, m16, 4, 0, 0, 0} // memory only
	VPMOVZXBW       = Inst{"vpmovzxbw", 2, 1, 0, 0x30, rm, hvm, 1, 0, 1, -1}
	VPMOVZXBD       = Inst{"vpmovzxbd", 2, 1, 0, 0x31, rm, qvm, 1, 0, 1, -2}
	VPMOVZXWD       = Inst{"vpmovzxwd", 2, 1, 0, 0x33, rm, hvm, 2, 0, 1, -1}
	VPUNPCKLBW      = Inst{"vpunpcklbw", 1, 1, 0, 0x60, rvm, fvm, 1, 0, 1, 0}
	VPUNPCKHBW      = Inst{"vpunpckhbw", 1, 1, 0, 0x68, rvm, fvm, 1, 0, 1, 0}
	VPUNPCKLWD      = Inst{"vpunpcklwd", 1, 1, 0, 0x61, rvm, fvm, 2, 0, 1, 0}
	VPUNPCKHWD      = Inst{"vpunpckhwd", 1, 1, 0, 0x69, rvm, fvm, 2, 0, 1, 0}
	VMAXPS          = Inst{"vmaxps", 1, 0, 0, 0x5f, rvm, fv, 4, 0, 1, 0}
	VGF2P8AFFINEQB  = Inst{"vgf2p8affineqb", 3, 1, 1, 0xce, rvmi, fv, 8, 0, 0, 0}
	VPMADDUBSW      = Inst{"vpmaddubsw", 2, 1, 0, 0x04, rvm, fvm, 1, 0, 1, 0}
	VEXTRACTI64X4   = Inst{"vextracti64x4", 3, 1, 1, 0x3b, mri, hvm, 8, 0, 0, -1} // zmm source only
	VPMADDWD        = Inst{"vpmaddwd", 1, 1, 0, 0xf5, rvm, fvm, 2, 0, 1, 0}
)

// Insts lists the table (for tests and coverage reports).
var Insts = []*Inst{&VMOVDQU32, &VMOVDQU32S, &VMOVDQU, &VMOVDQUS, &VMOVUPS, &VMOVUPSS, &VMOVNTPS, &VMOVNTDQA, &VPANDD, &VPAND, &VPORD, &VPXORD, &VPXOR, &VXORPS,
	&VPTERNLOGD, &VPSRLD, &VPSRAD, &VPSLLD, &VPSRLW, &VPSLLW, &VPADDD, &VPADDB, &VPSUBD, &VPMULLD, &VPSHUFB, &VPERMB, &VPERMW, &VPERMPS, &VPERMD, &VPDPBUSD,
	&VPDPWSSD, &VDPBF16PS, &VFMADD231PS, &VFMADD213PS, &VFMADD231PH, &VADDPH, &VCVTPH2PSX, &VADDPS, &VMULPS, &VCVTDQ2PS, &VCVTPS2DQ, &VCVTPH2PS, &VCVTPS2PH,
	&VCVTNE2PS2BF16, &VCVTNEPS2BF16, &VBROADCASTSS, &VPBROADCASTD, &VPBROADCASTW, &VBROADCASTI32X4, &VPMOVZXBW, &VPMOVZXBD, &VPMOVZXWD, &VPUNPCKLBW, &VPUNPCKHBW,
	&VPUNPCKLWD, &VPUNPCKHWD, &VMAXPS, &VGF2P8AFFINEQB, &VPMADDUBSW, &VPMADDWD, &VEXTRACTI64X4}

// Asm accumulates code. VEXOnly makes dual-encodable instructions use VEX (AVX2 / AVX-VNNI machines).
type Asm struct {
	Buf     []byte
	VEXOnly bool
	labels  []int   // label -> offset or -1
	fix     []fixup // rel32 fixups
}
type fixup struct{ at, label int }
type Label int

func (a *Asm) b(x ...byte) { a.Buf = append(a.Buf, x...) }
func (a *Asm) i32(x int32) { a.Buf = binary.LittleEndian.AppendUint32(a.Buf, uint32(x)) }

// modrm emits ModRM(+SIB+disp). n is the disp8 scale (1 = plain disp8).
func (a *Asm) modrm(reg uint8, m Mem, n int32, forceSIB bool) {
	reg = reg & 7 << 3
	base := uint8(m.Base) & 7
	mod, d8 := uint8(2), int32(0)
	switch {
	case m.Disp == 0 && base != 5:
		mod = 0
	case m.Disp%n == 0 && m.Disp/n >= -128 && m.Disp/n <= 127:
		mod, d8 = 1, m.Disp/n
	}
	if m.Scale != 0 || base == 4 || forceSIB {
		ss, idx := uint8(0), uint8(4)
		if m.Scale != 0 {
			if m.Index == RSP {
				panic("asm: rsp cannot be an index")
			}
			idx = uint8(m.Index) & 7
			for s := m.Scale; s > 1; s >>= 1 {
				ss++
			}
		}
		a.b(mod<<6|reg|4, ss<<6|idx<<3|base)
	} else {
		a.b(mod<<6 | reg | base)
	}
	switch mod {
	case 1:
		a.b(byte(d8))
	case 2:
		a.i32(m.Disp)
	}
}

func (in *Inst) disp8(L uint8, bc bool) int32 {
	vl := int32(16) << L
	switch in.T {
	case fv, hv:
		if bc {
			return int32(in.E)
		}
		if in.T == hv {
			return vl / 2
		}
		return vl
	case hvm:
		return vl / 2
	case qvm:
		return vl / 4
	case t1:
		return int32(in.E)
	case m16:
		return 16
	}
	return vl
}

func bit(x uint8, n uint) uint8 { return x >> n & 1 }

// Op emits a vector instruction: Op(VPDPBUSD, dst, src1, src2|Mem), Op(VPSRLD, dst, src, imm),
// Op(VMOVUPSS, Mem, src). Trailing KReg operand = write mask, ZeroMask = {z}.
func (a *Asm) Op(in Inst, ops ...any) {
	var k uint8
	var z bool
	for len(ops) > 0 {
		switch o := ops[len(ops)-1].(type) {
		case KReg:
			k = uint8(o)
			ops = ops[:len(ops)-1]
			continue
		case zeroing:
			z = true
			ops = ops[:len(ops)-1]
			continue
		}
		break
	}
	var reg, vv uint8
	var rmo any
	imm, hasImm := 0, false
	L := uint8(0)
	switch in.F {
	case rvm, rvmi:
		d, s := ops[0].(Vec), ops[1].(Vec)
		reg, vv, rmo, L = d.N, s.N, ops[2], d.L
		if in.F == rvmi {
			imm, hasImm = ops[3].(int), true
		}
	case rm, rmi:
		d := ops[0].(Vec)
		reg, rmo, L = d.N, ops[1], d.L
		if in.Name == "vcvtneps2bf16" {
			L++
		}
	case mr, mri:
		s := ops[1].(Vec)
		reg, rmo, L = s.N, ops[0], s.L
		if in.F == mri {
			imm, hasImm = ops[2].(int), true
		}
	case vmi:
		d := ops[0].(Vec)
		reg, vv, rmo, L = in.Ext, d.N, ops[1], d.L
		imm, hasImm = ops[2].(int), true
	}
	mem, isMem := rmo.(Mem)
	var rmr uint8
	var bX, bB uint8 // extension bits of rm
	if isMem {
		bB = bit(uint8(mem.Base), 3)
		if mem.Scale != 0 {
			bX = bit(uint8(mem.Index), 3)
		}
	} else {
		rmr = rmo.(Vec).N
		bX, bB = bit(rmr, 4), bit(rmr, 3)
	}
	high := reg > 15 && in.F != vmi || vv > 15 || rmr > 15 || L > 1 || k != 0 || z || isMem && mem.B
	if in.V == 2 || in.V == 1 && a.VEXOnly {
		if high {
			panic(fmt.Sprintf("asm: %s: operands need EVEX", in.Name))
		}
		w := in.W
		r := bit(reg, 3)
		if bX == 0 && bB == 0 && w == 0 && in.Map == 1 {
			a.b(0xc5, (r^1)<<7|(^vv&15)<<3|L<<2|in.P)
		} else {
			a.b(0xc4, (r^1)<<7|(bX^1)<<6|(bB^1)<<5|in.Map, w<<7|(^vv&15)<<3|L<<2|in.P)
		}
		a.b(in.Op)
		if isMem {
			a.modrm(reg, mem, 1, false)
		} else {
			a.b(0xc0 | reg&7<<3 | rmr&7)
		}
	} else {
		var bc, zb uint8
		if isMem && mem.B {
			if in.T != fv && in.T != hv {
				panic(fmt.Sprintf("asm: %s has no embedded broadcast", in.Name))
			}
			bc = 1
		}
		if z {
			zb = 1
		}
		r3, r4 := bit(reg, 3), bit(reg, 4)
		if in.F == vmi {
			r3, r4 = 0, 0
		}
		a.b(0x62,
			(r3^1)<<7|(bX^1)<<6|(bB^1)<<5|(r4^1)<<4|in.Map,
			in.W<<7|(^vv&15)<<3|4|in.P,
			zb<<7|L<<5|bc<<4|(bit(vv, 4)^1)<<3|k,
			in.Op)
		if isMem {
			a.modrm(reg, mem, in.disp8(L, mem.B), false)
		} else {
			a.b(0xc0 | reg&7<<3 | rmr&7)
		}
	}
	if hasImm {
		a.b(byte(imm))
	}
}

type zeroing struct{}

var ZeroMask zeroing

// ---- scalar ----

func (a *Asm) rex(w, reg, x, b uint8) {
	v := w<<3 | bit(reg, 3)<<2 | bit(x, 3)<<1 | bit(b, 3)
	if v != 0 {
		a.b(0x40 | v)
	}
}
func (a *Asm) memOp(w uint8, op []byte, reg uint8, m Mem) {
	x := uint8(0)
	if m.Scale != 0 {
		x = uint8(m.Index)
	}
	a.rex(w, reg, x, uint8(m.Base))
	a.b(op...)
	a.modrm(reg, m, 1, false)
}
func (a *Asm) Load(d Reg, m Mem)  { a.memOp(1, []byte{0x8b}, uint8(d), m) }
func (a *Asm) Store(m Mem, s Reg) { a.memOp(1, []byte{0x89}, uint8(s), m) }
func (a *Asm) Lea(d Reg, m Mem)   { a.memOp(1, []byte{0x8d}, uint8(d), m) }
func (a *Asm) Mov(d, s Reg) {
	a.rex(1, uint8(s), 0, uint8(d))
	a.b(0x89, 0xc0|uint8(s)&7<<3|uint8(d)&7)
}
func (a *Asm) alu(op uint8, d, s Reg) {
	a.rex(1, uint8(s), 0, uint8(d))
	a.b(op, 0xc0|uint8(s)&7<<3|uint8(d)&7)
}
func (a *Asm) Add(d, s Reg)  { a.alu(0x01, d, s) }
func (a *Asm) Sub(d, s Reg)  { a.alu(0x29, d, s) }
func (a *Asm) Cmp(d, s Reg)  { a.alu(0x39, d, s) }
func (a *Asm) Test(d, s Reg) { a.alu(0x85, d, s) }
func (a *Asm) aluI(ext uint8, d Reg, v int) {
	a.rex(1, 0, 0, uint8(d))
	if v >= -128 && v <= 127 {
		a.b(0x83, 0xc0|ext<<3|uint8(d)&7, byte(v))
	} else {
		a.b(0x81, 0xc0|ext<<3|uint8(d)&7)
		a.i32(int32(v))
	}
}
func (a *Asm) AddI(d Reg, v int) { a.aluI(0, d, v) }
func (a *Asm) SubI(d Reg, v int) { a.aluI(5, d, v) }
func (a *Asm) CmpI(d Reg, v int) { a.aluI(7, d, v) }
func (a *Asm) AndI(d Reg, v int) { a.aluI(4, d, v) }
func (a *Asm) MovI(d Reg, v int64) {
	switch {
	case v >= 0 && v <= 0x7fffffff: // mov r32, imm32 zero-extends
		a.rex(0, 0, 0, uint8(d))
		a.b(0xb8 | uint8(d)&7)
		a.i32(int32(v))
	default:
		a.rex(1, 0, 0, uint8(d))
		a.b(0xb8 | uint8(d)&7)
		a.Buf = binary.LittleEndian.AppendUint64(a.Buf, uint64(v))
	}
}
func (a *Asm) Imul(d, s Reg) {
	a.rex(1, uint8(d), 0, uint8(s))
	a.b(0x0f, 0xaf, 0xc0|uint8(d)&7<<3|uint8(s)&7)
}
func (a *Asm) Shl(d Reg, n int) { a.rex(1, 0, 0, uint8(d)); a.b(0xc1, 0xe0|uint8(d)&7, byte(n)) }
func (a *Asm) Dec(d Reg)        { a.rex(1, 0, 0, uint8(d)); a.b(0xff, 0xc8|uint8(d)&7) }
func (a *Asm) Ret()             { a.b(0xc3) }
func (a *Asm) Pause()           { a.b(0xf3, 0x90) }
func (a *Asm) Vzeroupper()      { a.b(0xc5, 0xf8, 0x77) }
func (a *Asm) Ud2()             { a.b(0x0f, 0x0b) }

// Prefetch: hint 0=nta 1=t0 2=t1 3=t2.
func (a *Asm) Prefetch(hint uint8, m Mem) { a.memOp(0, []byte{0x0f, 0x18}, hint, m) }

// Cond codes for Jcc.
const (
	CcB, CcAE, CcE, CcNE, CcBE, CcA, CcL, CcGE, CcLE, CcG = 2, 3, 4, 5, 6, 7, 0xc, 0xd, 0xe, 0xf
)

func (a *Asm) NewLabel() Label { a.labels = append(a.labels, -1); return Label(len(a.labels) - 1) }
func (a *Asm) Bind(l Label)    { a.labels[l] = len(a.Buf) }
func (a *Asm) Here() Label     { l := a.NewLabel(); a.Bind(l); return l }
func (a *Asm) Jcc(cc uint8, l Label) {
	a.b(0x0f, 0x80|cc)
	a.fix = append(a.fix, fixup{len(a.Buf), int(l)})
	a.i32(0)
}
func (a *Asm) Jmp(l Label) {
	a.b(0xe9)
	a.fix = append(a.fix, fixup{len(a.Buf), int(l)})
	a.i32(0)
}

var nops = [...]string{1: "\x90", 2: "\x66\x90", 3: "\x0f\x1f\x00", 4: "\x0f\x1f\x40\x00", 5: "\x0f\x1f\x44\x00\x00", 6: "\x66\x0f\x1f\x44\x00\x00", 7: "\x0f\x1f\x80\x00\x00\x00\x00", 8: "\x0f\x1f\x84\x00\x00\x00\x00\x00"}

func (a *Asm) Align(n int) {
	for p := -len(a.Buf) & (n - 1); p > 0; {
		q := min(p, 8)
		a.Buf = append(a.Buf, nops[q]...)
		p -= q
	}
}

// VecLoadRIP loads a constant placed later via Const.
func (a *Asm) Finish() []byte {
	for _, f := range a.fix {
		if a.labels[f.label] < 0 {
			panic("asm: unbound label")
		}
		binary.LittleEndian.PutUint32(a.Buf[f.at:], uint32(a.labels[f.label]-f.at-4))
	}
	return a.Buf
}

// ---- mask registers ----
func (a *Asm) KmovW(k KReg, r Reg) { // kmovw k, r32
	a.b(0xc5, (bit(uint8(r), 3)^1)<<7|0x78, 0x92, 0xc0|uint8(k)<<3|uint8(r)&7)
}

// ---- AMX (VEX.128 map 0F38) ----
func (a *Asm) vex38(p, w, reg, vv, x, b, op uint8) {
	a.b(0xc4, (bit(reg, 3)^1)<<7|(bit(x, 3)^1)<<6|(bit(b, 3)^1)<<5|2, w<<7|(^vv&15)<<3|p, op)
}
func (a *Asm) tileMem(p, op uint8, t uint8, m Mem, sib bool) {
	x := uint8(0)
	if m.Scale != 0 {
		x = uint8(m.Index)
	}
	a.vex38(p, 0, t, 0, x, uint8(m.Base), op)
	a.modrm(t, m, 1, sib)
}
func (a *Asm) Ldtilecfg(m Mem)           { a.tileMem(0, 0x49, 0, m, false) }
func (a *Asm) Tileloadd(t Tile, m Mem)   { a.tileMem(3, 0x4b, uint8(t), m, true) }
func (a *Asm) Tileloaddt1(t Tile, m Mem) { a.tileMem(1, 0x4b, uint8(t), m, true) }
func (a *Asm) Tilestored(m Mem, t Tile)  { a.tileMem(2, 0x4b, uint8(t), m, true) }
func (a *Asm) Tilezero(t Tile)           { a.vex38(3, 0, 0, 0, 0, 0, 0x49); a.b(0xc0 | uint8(t)<<3) }
func (a *Asm) Tilerelease()              { a.vex38(0, 0, 0, 0, 0, 0, 0x49); a.b(0xc0) }
func (a *Asm) tdp(p, op uint8, c, x, y Tile) {
	a.vex38(p, 0, 0, uint8(y), 0, 0, op)
	a.b(0xc0 | uint8(c)<<3 | uint8(x))
}
func (a *Asm) Tdpbssd(c, x, y Tile)   { a.tdp(3, 0x5e, c, x, y) }
func (a *Asm) Tdpbsud(c, x, y Tile)   { a.tdp(2, 0x5e, c, x, y) }
func (a *Asm) Tdpbusd(c, x, y Tile)   { a.tdp(1, 0x5e, c, x, y) }
func (a *Asm) Tdpbuud(c, x, y Tile)   { a.tdp(0, 0x5e, c, x, y) }
func (a *Asm) Tdpbf16ps(c, x, y Tile) { a.tdp(2, 0x5c, c, x, y) }
func (a *Asm) Tdpfp16ps(c, x, y Tile) { a.tdp(3, 0x5c, c, x, y) }
