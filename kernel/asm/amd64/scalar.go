package amd64

import (
	"encoding/binary"
	"fmt"
	"math"
)

// rex emits a REX prefix if one is needed; byteReg forces it for spl, bpl, sil and dil.
func (a *Asm) rex(w, reg, x, b uint8, byteReg bool) {
	if v := w<<3 | reg<<2 | x<<1 | b; v != 0 || byteReg {
		a.b(0x40 | v)
	}
}

// memOp emits op reg, mem.
func (a *Asm) memOp(w uint8, op []byte, reg uint8, m Mem) {
	if bad := m.check(); bad != "" || m.B || m.VX != 0 || reg > 15 {
		a.fail(fmt.Errorf("scalar instruction on %v: %s", m, bad))
		return
	}
	x, b := m.ext()
	a.rex(w, bit(reg, 3), x, b, len(op) == 1 && op[0] == 0x88 && reg >= 4)
	a.b(op...)
	a.modrm(reg, m, 1, false)
	a.endRIP()
}

// regOp emits op with reg in ModRM.reg and rm in ModRM.rm, both 64-bit.
func (a *Asm) regOp(op []byte, reg, rm Reg) {
	if reg > R15 || rm > R15 {
		a.fail(fmt.Errorf("bad register %d, %d", reg, rm))
		return
	}
	a.rex(1, bit(uint8(reg), 3), 0, bit(uint8(rm), 3), false)
	a.b(op...)
	a.b(0xc0 | uint8(reg)&7<<3 | uint8(rm)&7)
}

// Loads and stores.

// Load is d = 64 bits at m.
func (a *Asm) Load(d Reg, m Mem) { a.memOp(1, []byte{0x8b}, uint8(d), m) }

// Load32 is d = 32 bits at m, zero-extended.
func (a *Asm) Load32(d Reg, m Mem) { a.memOp(0, []byte{0x8b}, uint8(d), m) }

// Load16 is d = 16 bits at m, zero-extended.
func (a *Asm) Load16(d Reg, m Mem) { a.memOp(0, []byte{0x0f, 0xb7}, uint8(d), m) }

// Load8 is d = the byte at m, zero-extended.
func (a *Asm) Load8(d Reg, m Mem) { a.memOp(0, []byte{0x0f, 0xb6}, uint8(d), m) }

// LoadS32 is d = 32 bits at m, sign-extended to 64.
func (a *Asm) LoadS32(d Reg, m Mem) { a.memOp(1, []byte{0x63}, uint8(d), m) }

// LoadS16 is d = 16 bits at m, sign-extended to 64.
func (a *Asm) LoadS16(d Reg, m Mem) { a.memOp(1, []byte{0x0f, 0xbf}, uint8(d), m) }

// LoadS8 is d = the byte at m, sign-extended to 64.
func (a *Asm) LoadS8(d Reg, m Mem) { a.memOp(1, []byte{0x0f, 0xbe}, uint8(d), m) }

// Store writes 64 bits.
func (a *Asm) Store(m Mem, s Reg) { a.memOp(1, []byte{0x89}, uint8(s), m) }

// Store32 writes the low 32 bits.
func (a *Asm) Store32(m Mem, s Reg) { a.memOp(0, []byte{0x89}, uint8(s), m) }

// Store16 writes the low 16 bits.
func (a *Asm) Store16(m Mem, s Reg) {
	a.b(0x66)
	a.memOp(0, []byte{0x89}, uint8(s), m)
}

// Store8 writes the low byte.
func (a *Asm) Store8(m Mem, s Reg) { a.memOp(0, []byte{0x88}, uint8(s), m) }

// Lea is d = the address m.
func (a *Asm) Lea(d Reg, m Mem) { a.memOp(1, []byte{0x8d}, uint8(d), m) }

// Prefetch fetches the line at m: hint 0 nta, 1 t0, 2 t1, 3 t2.
func (a *Asm) Prefetch(hint uint8, m Mem) { a.memOp(0, []byte{0x0f, 0x18}, hint&3, m) }

// Arithmetic on 64-bit registers.

// Mov is d = s.
func (a *Asm) Mov(d, s Reg) { a.regOp([]byte{0x89}, s, d) }

// Add is d += s.
func (a *Asm) Add(d, s Reg) { a.regOp([]byte{0x01}, s, d) }

// Sub is d -= s.
func (a *Asm) Sub(d, s Reg) { a.regOp([]byte{0x29}, s, d) }

// And is d &= s.
func (a *Asm) And(d, s Reg) { a.regOp([]byte{0x21}, s, d) }

// Or is d |= s.
func (a *Asm) Or(d, s Reg) { a.regOp([]byte{0x09}, s, d) }

// Xor is d ^= s.
func (a *Asm) Xor(d, s Reg) { a.regOp([]byte{0x31}, s, d) }

// Cmp sets the flags of d - s.
func (a *Asm) Cmp(d, s Reg) { a.regOp([]byte{0x39}, s, d) }

// Test sets the flags of d & s.
func (a *Asm) Test(d, s Reg) { a.regOp([]byte{0x85}, s, d) }

// Imul is d *= s.
func (a *Asm) Imul(d, s Reg) { a.regOp([]byte{0x0f, 0xaf}, d, s) }

// Cmov is d = s if the condition holds.
func (a *Asm) Cmov(cc uint8, d, s Reg) { a.regOp([]byte{0x0f, 0x40 | cc&15}, d, s) }

// Neg is d = -d.
func (a *Asm) Neg(d Reg) { a.regOp([]byte{0xf7}, 3, d) }

// Dec is d--.
func (a *Asm) Dec(d Reg) { a.regOp([]byte{0xff}, 1, d) }

// Inc is d++.
func (a *Asm) Inc(d Reg) { a.regOp([]byte{0xff}, 0, d) }

// AddM is d += 64 bits at m.
func (a *Asm) AddM(d Reg, m Mem) { a.memOp(1, []byte{0x03}, uint8(d), m) }

// CmpM sets the flags of d - 64 bits at m.
func (a *Asm) CmpM(d Reg, m Mem) { a.memOp(1, []byte{0x3b}, uint8(d), m) }

// AddI is d += v, v a signed 32-bit number, as in the following five.
func (a *Asm) AddI(d Reg, v int) { a.aluI(0, d, v) }

// OrI is d |= v.
func (a *Asm) OrI(d Reg, v int) { a.aluI(1, d, v) }

// AndI is d &= v.
func (a *Asm) AndI(d Reg, v int) { a.aluI(4, d, v) }

// SubI is d -= v.
func (a *Asm) SubI(d Reg, v int) { a.aluI(5, d, v) }

// XorI is d ^= v.
func (a *Asm) XorI(d Reg, v int) { a.aluI(6, d, v) }

// CmpI sets the flags of d - v.
func (a *Asm) CmpI(d Reg, v int) { a.aluI(7, d, v) }

func (a *Asm) aluI(ext uint8, d Reg, v int) {
	switch {
	case v >= math.MinInt8 && v <= math.MaxInt8:
		a.regOp([]byte{0x83}, Reg(ext), d)
		a.b(byte(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		a.regOp([]byte{0x81}, Reg(ext), d)
		a.i32(int32(v))
	default:
		a.fail(fmt.Errorf("constant %d has no 32-bit form", v))
	}
}

// ImulI is d = s * v.
func (a *Asm) ImulI(d, s Reg, v int) {
	if v < math.MinInt32 || v > math.MaxInt32 {
		a.fail(fmt.Errorf("constant %d has no 32-bit form", v))
		return
	}
	a.regOp([]byte{0x69}, d, s)
	a.i32(int32(v))
}

// MovI is d = v.
func (a *Asm) MovI(d Reg, v int64) {
	if d > R15 {
		a.fail(fmt.Errorf("bad register %d", d))
		return
	}
	switch hi := bit(uint8(d), 3); {
	case v >= 0 && v <= math.MaxUint32: // mov r32, imm32 zero-extends
		a.rex(0, 0, 0, hi, false)
		a.b(0xb8 | uint8(d)&7)
		a.i32(int32(uint32(v)))
	case v >= math.MinInt32 && v < 0: // sign-extended
		a.regOp([]byte{0xc7}, 0, d)
		a.i32(int32(v))
	default:
		a.rex(1, 0, 0, hi, false)
		a.b(0xb8 | uint8(d)&7)
		a.Buf = binary.LittleEndian.AppendUint64(a.Buf, uint64(v))
	}
}

// Shl is d <<= n.
func (a *Asm) Shl(d Reg, n int) { a.shift(4, d, n) }

// Shr is d >>= n, unsigned.
func (a *Asm) Shr(d Reg, n int) { a.shift(5, d, n) }

// Sar is d >>= n, signed.
func (a *Asm) Sar(d Reg, n int) { a.shift(7, d, n) }

func (a *Asm) shift(ext uint8, d Reg, n int) {
	if n < 0 || n > 63 {
		a.fail(fmt.Errorf("shift by %d", n))
		return
	}
	a.regOp([]byte{0xc1}, Reg(ext), d)
	a.b(byte(n))
}

// Ret returns to the caller.
func (a *Asm) Ret() { a.b(0xc3) }

// Pause is the spin-wait hint.
func (a *Asm) Pause() { a.b(0xf3, 0x90) }

// Vzeroupper clears the upper parts of the vector registers.
func (a *Asm) Vzeroupper() { a.b(0xc5, 0xf8, 0x77) }

// Ud2 faults.
func (a *Asm) Ud2() { a.b(0x0f, 0x0b) }
