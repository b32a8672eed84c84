package amd64

// Inst is one row of the instruction table, in the terms of the Intel manual.
type Inst struct {
	Name string
	op   opcode
	form form
	tup  tuple
	enc  enc
	opt  opt
}

// opcode packs the opcode byte, the opcode map, the mandatory prefix and W.
type opcode uint32

const (
	x0F  opcode = 1 << 8 // opcode maps
	x38  opcode = 2 << 8
	x3A  opcode = 3 << 8
	map5 opcode = 5 << 8
	map6 opcode = 6 << 8
	p66  opcode = 1 << 12 // mandatory prefixes
	pF3  opcode = 2 << 12
	pF2  opcode = 3 << 12
	w1   opcode = 1 << 16
	we1  opcode = 1 << 17 // W=1 in EVEX, ignored (0) in VEX
)

func (o opcode) byte() byte   { return byte(o) }
func (o opcode) mmap() uint8  { return uint8(o >> 8 & 15) }
func (o opcode) pp() uint8    { return uint8(o >> 12 & 3) }
func (o opcode) wvex() uint8  { return uint8(o >> 16 & 1) }
func (o opcode) wevex() uint8 { return uint8((o>>16 | o>>17) & 1) }

// form says where the operands go, in order: r ModRM.reg, g ModRM.reg as a general register,
// v VEX.vvvv, m ModRM.rm (register or memory), i imm8, s a vector register in imm8[7:4].
type form string

const (
	rvm  form = "rvm"
	rm   form = "rm"
	mr   form = "mr"
	gm   form = "gm"
	vmi  form = "vmi" // shifts by a constant; ModRM.reg extends the opcode
	rvmi form = "rvmi"
	rmi  form = "rmi"
	mri  form = "mri"
	rvms form = "rvms"
	mvr  form = "mvr"
)

// tuple is the EVEX tuple type (it scales disp8): kind<<4 | element bytes.
type tuple uint8

const (
	fv  = iota // full vector, or one element when broadcast
	hv         // half vector, or one element when broadcast
	fvm        // full vector
	hvm        // half
	qvm        // quarter
	t1s        // one element
	q16        // 16 bytes
	q32        // 32 bytes

	f2  tuple = fv<<4 | 2
	f4  tuple = fv<<4 | 4
	f8  tuple = fv<<4 | 8
	h2  tuple = hv<<4 | 2
	fm  tuple = fvm << 4
	hm  tuple = hvm << 4
	qm  tuple = qvm << 4
	t1  tuple = t1s<<4 | 1
	t2  tuple = t1s<<4 | 2
	t4  tuple = t1s<<4 | 4
	t8  tuple = t1s<<4 | 8
	m16 tuple = q16 << 4
	m32 tuple = q32 << 4
)

// bytes is the size of the memory operand for vector length l.
func (t tuple) bytes(l uint8, bcast bool) int32 {
	vl, elem := int32(16)<<l, int32(t&15)
	switch t >> 4 {
	case fv, hv:
		if bcast {
			return elem
		}
		if t>>4 == hv {
			return vl / 2
		}
	case hvm:
		return vl / 2
	case qvm:
		return vl / 4
	case t1s:
		return elem
	case q16:
		return 16
	case q32:
		return 32
	}
	return vl
}

// bcast reports whether the memory operand may be an embedded broadcast.
func (t tuple) bcast() bool { return t>>4 == fv || t>>4 == hv }

// enc is the set of encodings of an instruction.
type enc uint8

const (
	evex enc = iota
	both     // VEX under Asm.VEXOnly, else EVEX
	vex
)

// opt holds the remaining facts about the operands.
type opt uint32

const (
	rmHalf    opt = 1 << iota // a register rm is half as long as the vector length
	rmQuarter                 // a quarter
	rmX                       // a register rm is xmm
	rmG                       // a register rm is a general register
	regHalf                   // the register in reg is half as long as the vector length
	memOnly                   // rm is memory
	regOnly                   // rm is a register
	vexReg                    // rm is a register in the VEX encoding
	kDst                      // the EVEX form writes a mask register
	vsib                      // memory with a vector index
	lX                        // xmm only (scalars too)
	lY                        // ymm only
	lZ                        // zmm only
	lYZ                       // ymm or zmm
	noMask                    // takes no write mask

	// ext(n) is the opcode extension in ModRM.reg.
	extShift = 28
)

func ext(n opt) opt { return n << extShift }

// lengthOK reports whether the instruction exists for vector length l.
func (o opt) lengthOK(l uint8) bool {
	switch {
	case o&lX != 0:
		return l == 0
	case o&lY != 0:
		return l == 1
	case o&lZ != 0:
		return l == 2
	case o&lYZ != 0:
		return l == 1 || l == 2
	}
	return l <= 2
}

// rmLen is the length of a vector register in rm for vector length l.
func (o opt) rmLen(l uint8) uint8 {
	switch {
	case o&rmX != 0:
		return 0
	case o&rmHalf != 0:
		return max(l, 1) - 1
	case o&rmQuarter != 0:
		return max(l, 2) - 2
	}
	return l
}
