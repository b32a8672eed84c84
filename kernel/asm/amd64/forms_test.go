package amd64

import "strings"

// line is one emitted instruction: its text for an assembler and its bytes.
type line struct {
	text string
	code []byte
}

// addresses are the addressing forms: no, 8-bit and 32-bit displacements, multiples of the EVEX
// disp8 scale and not, base registers that need a SIB or a displacement, high registers.
var addresses = []Mem{
	M(RAX, 0), M(RBP, 0), M(RSP, 0), M(R12, 0), M(R13, 0), M(RDI, 16), M(RSI, -64), M(R9, 1),
	M(RBX, 127), M(RDX, 64*127), M(RDX, 64*128), M(R11, -64*128), M(RCX, 1<<20), M(RSP, 4), M(R15, -128),
	MX(RAX, RCX, 1, 0), MX(RBP, R8, 2, 0), MX(R13, RAX, 4, 32), MX(RSP, R15, 8, 128), MX(R12, R12, 1, -4096), MX(RDI, RBP, 8, 7),
}

// forms calls f with every combination worth testing of an instruction's encodings, vector
// lengths, register classes, addressing forms, masks and broadcasts.
func forms(in *Inst, f func(vexEnc bool, ops []any)) {
	for _, vexEnc := range []bool{true, false} {
		if vexEnc && in.enc == evex || !vexEnc && in.enc == vex {
			continue
		}
		for l := uint8(0); l < 3; l++ {
			if !in.opt.lengthOK(l) || l == 2 && vexEnc || in.opt&regHalf != 0 && l == 0 {
				continue
			}
			formsOf(in, vexEnc, l, f)
		}
	}
}

func formsOf(in *Inst, vexEnc bool, l uint8, f func(bool, []any)) {
	regs := []uint8{0, 3, 9, 15}
	if !vexEnc {
		regs = []uint8{1, 10, 20, 31}
	}
	n := 0
	emit := func(rm any, tail ...any) {
		f(vexEnc, append(operandsFor(in, vexEnc, l, regs, n, rm), tail...))
		n++
	}
	toMem := in.form[0] == 'm'
	if in.opt&memOnly == 0 {
		for i := 0; i < 8; i++ {
			v := any(Vec{regs[i*3%4], in.opt.rmLen(l)})
			if vexEnc && strings.HasPrefix(in.Name, "vmov") && in.form == rm {
				v = Vec{uint8(i % 8), l} // above 7, assemblers prefer the store form: it is shorter
			}
			if in.opt&rmG != 0 {
				v = Reg(i * 5 % 16)
			}
			emit(v)
			if !vexEnc && in.opt&noMask == 0 {
				emit(v, KReg(1+n%7))
				if in.opt&kDst == 0 {
					emit(v, KReg(1+n%7), ZeroMask)
				}
			}
		}
	}
	if in.opt&regOnly != 0 || vexEnc && in.opt&vexReg != 0 {
		return
	}
	for _, m := range addresses {
		switch {
		case in.opt&vsib != 0 && m.Scale == 0:
			continue
		case in.opt&vsib != 0:
			m.VX, m.Index = l+1, m.Index+Reg(n%2*16)
			emit(m, KReg(3))
			continue
		}
		emit(m)
		if vexEnc {
			continue
		}
		if in.tup.bcast() {
			emit(m.Bcast())
		}
		if in.opt&noMask == 0 {
			emit(m, KReg(1+n%7))
			if !toMem && in.opt&kDst == 0 {
				emit(m, KReg(1+n%7), ZeroMask)
			}
		}
	}
}

// operandsFor fills the slots of in, choosing registers by a running number.
func operandsFor(in *Inst, vexEnc bool, l uint8, regs []uint8, n int, rm any) []any {
	var ops []any
	for i, c := range in.form {
		v := Vec{regs[(n+i)%4], l}
		switch c {
		case 'm':
			ops = append(ops, rm)
		case 'i':
			ops = append(ops, n*37%256)
		case 'g':
			ops = append(ops, Reg(n*7%16))
		default:
			if c == 'r' && in.opt&kDst != 0 && !vexEnc {
				ops = append(ops, KReg(n%8))
				continue
			}
			if c == 'r' && in.opt&regHalf != 0 {
				v.L--
			}
			ops = append(ops, v)
		}
	}
	return ops
}

// vectorLines emits every form of every table row.
func vectorLines(fail func(string, ...any)) []line {
	var out []line
	for _, in := range insts {
		forms(in, func(vexEnc bool, ops []any) {
			a := Asm{VEXOnly: vexEnc}
			a.Op(*in, ops...)
			if a.Err() != nil {
				fail("%v", a.Err())
				return
			}
			out = append(out, line{text(in, vexEnc, ops), a.Buf})
		})
	}
	return out
}
