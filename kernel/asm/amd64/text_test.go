package amd64

import (
	"fmt"
	"strings"
)

var names64 = []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
var names32 = []string{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"}
var sizes = map[int32]string{1: "byte", 2: "word", 4: "dword", 8: "qword", 16: "xmmword", 32: "ymmword", 64: "zmmword"}

func vecText(v Vec) string { return fmt.Sprintf("%cmm%d", "xyz"[v.L], v.N) }

// addrText is the Intel syntax of an address.
func addrText(m Mem) string {
	s := "[" + names64[m.Base]
	if m.Scale != 0 {
		index := ""
		if m.VX != 0 {
			index = vecText(Vec{uint8(m.Index), m.VX - 1})
		} else {
			index = names64[m.Index]
		}
		s += fmt.Sprintf(" + %s*%d", index, m.Scale)
	}
	if m.Disp != 0 {
		s += fmt.Sprintf(" + %d", m.Disp)
	}
	return s + "]"
}

// text is the Intel syntax of an instruction, as an assembler takes it, with the encoding forced.
func text(in *Inst, vexEnc bool, ops []any) string {
	o, err := in.resolve(ops)
	if err != nil {
		return "; " + err.Error()
	}
	var args []string
	mask := ""
	for i, x := range ops {
		switch x := x.(type) {
		case Vec:
			args = append(args, vecText(x))
		case Reg:
			n := names32
			if in.op.wvex() == 1 {
				n = names64
			}
			args = append(args, n[x])
		case Mem:
			s := sizes[in.tup.bytes(o.l, x.B)] + " ptr " + addrText(x)
			if x.VX != 0 {
				s = addrText(x)
			}
			if x.B {
				n := int32(16) << o.l / int32(in.tup&15)
				if in.tup>>4 == hv {
					n /= 2
				}
				s += fmt.Sprintf("{1to%d}", n)
			}
			args = append(args, s)
		case KReg:
			if i < len(in.form) {
				args = append(args, fmt.Sprintf("k%d", x))
			} else {
				mask += fmt.Sprintf(" {k%d}", x)
			}
		case zeroing:
			mask += " {z}"
		case int:
			args = append(args, fmt.Sprint(x))
		}
	}
	args[0] += mask
	prefix := "{evex} "
	if vexEnc {
		prefix = "{vex} "
	}
	return prefix + in.Name + " " + strings.Join(args, ", ")
}
