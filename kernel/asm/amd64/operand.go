package amd64

// Reg is a 64-bit general register.
type Reg uint8

// General registers, numbered as in instruction encodings.
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
	RIP   Reg = 254 // base of a constant-pool operand, made by Asm.Const
	NoReg Reg = 255
)

// Vec is a vector register: number N (0 to 31) and length L (0 xmm, 1 ymm, 2 zmm).
type Vec struct{ N, L uint8 }

// X is xmm n.
func X(n int) Vec { return Vec{uint8(n), 0} }

// Y is ymm n.
func Y(n int) Vec { return Vec{uint8(n), 1} }

// Z is zmm n.
func Z(n int) Vec { return Vec{uint8(n), 2} }

// KReg is a mask register, 0 to 7. As the last operand of Op it is the write mask (k0: none).
type KReg uint8

type zeroing struct{}

// ZeroMask, as the operand after the write mask, clears masked-off elements instead of keeping them.
var ZeroMask zeroing

// Mem is a memory operand: base + index*scale + disp.
type Mem struct {
	Base, Index Reg
	Scale       uint8 // 0 = no index, else 1, 2, 4, 8
	Disp        int32
	B           bool  // EVEX embedded broadcast of one element
	VX          uint8 // 1 + length of a vector index (gather, scatter); Index is then its number
	pool        int   // Base RIP: 1 + index of the constant
	far         bool  // displacement or scale did not fit: misuse, found when the operand is used
}

// M is [base+disp].
func M(base Reg, disp int) Mem { return Mem{Base: base}.Add(disp) }

// MX is [base+index*scale+disp].
func MX(base, index Reg, scale, disp int) Mem {
	return Mem{Base: base, Index: index, Scale: uint8(scale), far: scale != int(uint8(scale))}.Add(disp)
}

// MV is [base+index*scale+disp] with a vector of 32-bit indices, for gathers and scatters.
func MV(base Reg, index Vec, scale, disp int) Mem {
	m := MX(base, Reg(index.N), scale, disp)
	m.VX = index.L + 1
	return m
}

// Bcast asks for the EVEX embedded broadcast of one element.
func (m Mem) Bcast() Mem { m.B = true; return m }

// Add moves the operand by n bytes.
func (m Mem) Add(n int) Mem {
	sum := int(m.Disp) + n
	m.Disp, m.far = int32(sum), m.far || sum != int(int32(sum))
	return m
}

// ext returns the fourth bits of index and base.
func (m Mem) ext() (x, b uint8) {
	if m.Scale != 0 {
		x = bit(uint8(m.Index), 3)
	}
	if m.Base != RIP {
		b = bit(uint8(m.Base), 3)
	}
	return x, b
}

// check reports why m cannot be encoded, or "".
func (m Mem) check() string {
	switch {
	case m.far:
		return "displacement beyond 32 bits, or an index scale that is not 0, 1, 2, 4 or 8"
	case m.Base > R15 && m.Base != RIP:
		return "memory operand without a base register"
	case m.Base == RIP && (m.Scale != 0 || m.pool == 0):
		return "rip-relative operands come from Const and take no index"
	case m.Scale&(m.Scale-1) != 0 || m.Scale > 8:
		return "index scale is not 0, 1, 2, 4 or 8"
	case m.Scale == 0 && m.VX != 0:
		return "vector index without a scale"
	case m.Scale != 0 && m.VX == 0 && m.Index == RSP:
		return "rsp cannot be an index"
	case m.Scale != 0 && (m.VX == 0 && m.Index > R15 || m.Index > 31):
		return "bad index register"
	}
	return ""
}

func bit(x uint8, n uint) uint8 { return x >> n & 1 }
