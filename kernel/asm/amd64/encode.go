package amd64

import (
	"fmt"
	"math"
)

// operands is what Op makes of its arguments before encoding.
type operands struct {
	reg, vvvv, rm uint8
	mem           Mem
	isMem         bool
	kreg          bool // reg is a mask register
	l             uint8
	k             uint8 // write mask
	z             bool
	imm           byte
	hasImm        bool
}

// Op emits a vector instruction, operands in Intel order: Op(VPDPBUSD, dst, src1, src2 or Mem),
// Op(VPSRLD, dst, src, imm), Op(VMOVUPSS, Mem, src). A KReg after the operands is the write mask,
// ZeroMask after that clears instead of merging. Misuse is recorded in Err.
func (a *Asm) Op(in Inst, ops ...any) {
	o, err := in.resolve(ops)
	if err == nil {
		err = a.encode(&in, o)
	}
	if err != nil {
		a.fail(fmt.Errorf("%s%v: %w", in.Name, ops, err))
	}
}

// resolve sorts the arguments into encoding slots and checks their classes and lengths.
func (in *Inst) resolve(ops []any) (o operands, err error) {
	n := len(in.form)
	if len(ops) < n {
		return o, fmt.Errorf("%d operands, want %d", len(ops), n)
	}
	for _, x := range ops[n:] {
		switch x := x.(type) {
		case KReg:
			o.k = uint8(x)
		case zeroing:
			o.z = true
		default:
			return o, fmt.Errorf("%d operands, want %d", len(ops), n)
		}
	}
	if o.l, err = in.length(ops[:n]); err != nil {
		return o, err
	}
	if in.form == vmi {
		o.reg = uint8(in.opt >> extShift)
	}
	for i, x := range ops[:n] {
		if err := in.slot(&o, in.form[i], x); err != nil {
			return o, fmt.Errorf("operand %d: %w", i+1, err)
		}
	}
	if o.k > 7 || o.z && o.k == 0 || o.k != 0 && in.opt&noMask != 0 {
		return o, fmt.Errorf("bad write mask k%d", o.k)
	}
	if o.z && (o.kreg || o.isMem && in.form[0] == 'm') {
		return o, fmt.Errorf("this destination cannot be zero-masked")
	}
	return o, nil
}

// length finds the vector length: that of the register in reg or vvvv, else that of rm.
func (in *Inst) length(ops []any) (uint8, error) {
	l, found := uint8(0), false
	for i, x := range ops {
		v, ok := x.(Vec)
		switch {
		case !ok || found && in.form[i] == 'm':
			continue
		case in.form[i] == 'r' && in.opt&regHalf != 0:
			v.L++
		case in.form[i] == 'm' && in.opt&(rmHalf|rmQuarter|rmX|rmG) != 0:
			continue
		}
		l, found = max(l, v.L), true
	}
	if !in.opt.lengthOK(l) {
		return 0, fmt.Errorf("no such vector length")
	}
	return l, nil
}

// slot stores operand x in slot c.
func (in *Inst) slot(o *operands, c byte, x any) error {
	switch c {
	case 'i':
		v, ok := x.(int)
		if !ok || v < -128 || v > 255 {
			return fmt.Errorf("want an 8-bit constant, not %v", x)
		}
		o.imm, o.hasImm = byte(v), true
		return nil
	case 'm':
		return in.rmSlot(o, x)
	case 'g':
		g, ok := x.(Reg)
		if !ok || g > R15 {
			return fmt.Errorf("want a general register")
		}
		o.reg = uint8(g)
		return nil
	}
	if k, ok := x.(KReg); ok && c == 'r' && in.opt&kDst != 0 && k < 8 {
		o.reg, o.kreg = uint8(k), true
		return nil
	}
	l := o.l
	if c == 'r' && in.opt&regHalf != 0 {
		l = max(l, 1) - 1
	}
	v, err := vecOf(x, l)
	switch {
	case err != nil:
		return err
	case c == 'r':
		o.reg = v
	case c == 's':
		if v > 15 {
			return fmt.Errorf("register %d has no 4-bit number", v)
		}
		o.imm, o.hasImm = v<<4, true
	default:
		o.vvvv = v
	}
	return nil
}

func vecOf(x any, l uint8) (uint8, error) {
	v, ok := x.(Vec)
	if !ok || v.N > 31 || v.L > 2 {
		return 0, fmt.Errorf("want a vector register, not %v", x)
	}
	if v.L != l {
		return 0, fmt.Errorf("want %cmm%d", "xyz"[l], v.N)
	}
	return v.N, nil
}

func (in *Inst) rmSlot(o *operands, x any) error {
	if m, ok := x.(Mem); ok {
		o.mem, o.isMem = m, true
		switch bad := m.check(); {
		case bad != "":
			return fmt.Errorf("%s", bad)
		case in.opt&regOnly != 0:
			return fmt.Errorf("has no memory form")
		case (in.opt&vsib != 0) != (m.VX != 0) || m.VX != 0 && m.VX-1 != o.l:
			return fmt.Errorf("wrong kind of index")
		case m.B && !in.tup.bcast():
			return fmt.Errorf("has no embedded broadcast")
		}
		return nil
	}
	if in.opt&memOnly != 0 {
		return fmt.Errorf("want memory")
	}
	if in.opt&rmG != 0 {
		g, ok := x.(Reg)
		if !ok || g > R15 {
			return fmt.Errorf("want a general register or memory")
		}
		o.rm = uint8(g)
		return nil
	}
	v, err := vecOf(x, in.opt.rmLen(o.l))
	o.rm = v
	return err
}

// encode chooses between VEX and EVEX.
func (a *Asm) encode(in *Inst, o operands) error {
	useVEX := in.enc == vex || in.enc == both && a.VEXOnly
	if in.opt&kDst != 0 {
		if useVEX = !o.kreg; useVEX && in.enc == evex {
			return fmt.Errorf("want a mask register as destination")
		}
	}
	if useVEX {
		high := in.form != vmi && o.reg > 15 || o.vvvv > 15 || o.rm > 15 || o.l > 1
		switch {
		case high || o.k != 0 || o.isMem && o.mem.B:
			return fmt.Errorf("operands need EVEX")
		case o.isMem && in.opt&vexReg != 0:
			return fmt.Errorf("has no memory form in VEX")
		}
		a.vex(in, &o)
	} else {
		if in.opt&vsib != 0 && o.k == 0 {
			return fmt.Errorf("needs a write mask")
		}
		if a.VEXOnly {
			return fmt.Errorf("needs EVEX, but VEXOnly is set")
		}
		a.evex(in, &o)
	}
	return nil
}

// rmBits returns the third extension bits of rm: X and B.
func (o *operands) rmBits() (x, b uint8) {
	if o.isMem {
		return o.mem.ext()
	}
	return bit(o.rm, 4), bit(o.rm, 3)
}

func (a *Asm) vex(in *Inst, o *operands) {
	x, b := o.rmBits()
	w, mm, pp, r := in.op.wvex(), in.op.mmap(), in.op.pp(), bit(o.reg, 3)
	tail := (^o.vvvv&15)<<3 | o.l<<2 | pp
	if x == 0 && b == 0 && w == 0 && mm == 1 {
		a.b(0xc5, (r^1)<<7|tail)
	} else {
		a.b(0xc4, (r^1)<<7|(x^1)<<6|(b^1)<<5|mm, w<<7|tail)
	}
	a.opcodeAndRM(in, o, 1)
}

func (a *Asm) evex(in *Inst, o *operands) {
	x, b := o.rmBits()
	r3, r4, v4 := bit(o.reg, 3), bit(o.reg, 4), bit(o.vvvv, 4)
	if in.form == vmi {
		r3, r4 = 0, 0
	}
	if o.isMem && o.mem.VX != 0 {
		v4 = bit(uint8(o.mem.Index), 4)
	}
	var z, bc uint8
	if o.z {
		z = 1
	}
	if o.isMem && o.mem.B {
		bc = 1
	}
	a.b(0x62,
		(r3^1)<<7|(x^1)<<6|(b^1)<<5|(r4^1)<<4|in.op.mmap(),
		in.op.wevex()<<7|(^o.vvvv&15)<<3|4|in.op.pp(),
		z<<7|o.l<<5|bc<<4|(v4^1)<<3|o.k)
	a.opcodeAndRM(in, o, in.tup.bytes(o.l, o.mem.B))
}

// opcodeAndRM emits what follows the prefix; n scales disp8.
func (a *Asm) opcodeAndRM(in *Inst, o *operands, n int32) {
	a.b(in.op.byte())
	if o.isMem {
		a.modrm(o.reg, o.mem, n, false)
	} else {
		a.b(0xc0 | o.reg&7<<3 | o.rm&7)
	}
	if o.hasImm {
		a.b(o.imm)
	}
	a.endRIP()
}

// modrm emits ModRM, SIB and displacement of a memory operand. n is the scale of disp8.
func (a *Asm) modrm(reg uint8, m Mem, n int32, forceSIB bool) {
	reg = reg & 7 << 3
	if m.Base == RIP {
		a.b(reg | 5)
		a.rip = append(a.rip, ripFix{at: len(a.Buf), pool: m.pool - 1})
		a.i32(m.Disp)
		return
	}
	base := uint8(m.Base) & 7
	mod := uint8(2)
	switch {
	case m.Disp == 0 && base != 5:
		mod = 0
	case m.Disp%n == 0 && m.Disp/n >= math.MinInt8 && m.Disp/n <= math.MaxInt8:
		mod = 1
	}
	if m.Scale != 0 || base == 4 || forceSIB {
		ss, idx := uint8(0), uint8(4)
		if m.Scale != 0 {
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
		a.b(byte(m.Disp / n))
	case 2:
		a.i32(m.Disp)
	}
}
