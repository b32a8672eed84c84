package mca

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tilewright/tilewright/internal/objdump"
)

// Inst is a disassembled instruction in AT&T syntax.
type Inst struct {
	Addr int
	Text string
}

// load reports whether the instruction reads memory as data.
func (i Inst) load() bool {
	switch m := i.mnemonic(); {
	case !strings.Contains(i.Text, "("), strings.HasPrefix(m, "lea"), strings.HasPrefix(m, "prefetch"), strings.HasPrefix(m, "nop"):
		return false
	}
	ops := i.operands()
	return len(ops) > 0 && !(len(ops) > 1 && strings.Contains(ops[len(ops)-1], "(") && strings.HasPrefix(i.Text, "vmov"))
}

func (i Inst) mnemonic() string { m, _, _ := strings.Cut(i.Text, " "); return m }

// operands are separated by commas outside parentheses.
func (i Inst) operands() []string {
	_, rest, _ := strings.Cut(i.Text, " ")
	var out []string
	depth, from := 0, 0
	for at, c := range rest {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out, from = append(out, strings.TrimSpace(rest[from:at])), at+1
			}
		}
	}
	return append(out, strings.TrimSpace(rest[from:]))
}

// Disassemble decodes amd64 code from an offset on, with objdump.
func Disassemble(ctx context.Context, code []byte, from int) ([]Inst, error) {
	lines, err := objdump.Disassemble(ctx, code, from, objdump.AMD64)
	insts := make([]Inst, len(lines))
	for i, l := range lines {
		text, _, _ := strings.Cut(l.Text, "#")
		insts[i] = Inst{Addr: l.Offset, Text: strings.TrimSpace(text)}
	}
	return insts, err
}

// Trace follows the code from its start to its first return and returns the instructions in the order
// of execution. It knows general registers that constants were moved to, and operands in memory that it
// is told of, by how the disassembler writes them. A branch that they do not decide is not taken: loops
// over constants run, and the outermost loop of an entry, whose count is an argument, runs once.
func Trace(code []Inst, memory map[string]int64) ([]Inst, error) {
	const most = 1 << 20
	at := map[int]int{}
	for i, in := range code {
		at[in.Addr] = i
	}
	m := machine{regs: map[string]int64{}, memory: memory}
	var out []Inst
	for pc := 0; pc < len(code) && len(out) < most; {
		in := code[pc]
		pc++
		if strings.HasPrefix(in.Text, "ret") {
			return out, nil
		}
		if strings.HasPrefix(in.Text, "j") {
			to, err := strconv.ParseInt(strings.TrimPrefix(in.operands()[0], "0x"), 16, 64)
			if err != nil {
				return nil, fmt.Errorf("branch %q: %w", in.Text, err)
			}
			if m.taken(in.mnemonic()) {
				var ok bool
				if pc, ok = at[int(to)]; !ok {
					return nil, fmt.Errorf("branch %q leads nowhere", in.Text)
				}
			}
			in.Text = in.mnemonic() + " .Lnext"
		} else {
			m.step(in)
		}
		out = append(out, in)
	}
	return nil, fmt.Errorf("no return within %d instructions", most)
}

// machine is the little of a processor that loops over constants need.
type machine struct {
	regs   map[string]int64 // known registers, by 64-bit name
	memory map[string]int64 // known operands in memory, as the disassembler writes them
	flags  int64            // the result that flags tell of
	known  bool             // whether it is known
}

func (m *machine) taken(branch string) bool {
	return branch == "jmp" || m.known && m.holds(strings.TrimPrefix(branch, "j"))
}

// holds reports whether a condition is that of the flags.
func (m *machine) holds(condition string) bool {
	switch condition {
	case "ne":
		return m.flags != 0
	case "e":
		return m.flags == 0
	case "l":
		return m.flags < 0
	case "le":
		return m.flags <= 0
	case "g":
		return m.flags > 0
	case "ge":
		return m.flags >= 0
	}
	return false
}

func (m *machine) step(in Inst) {
	ops := in.operands()
	dst := wide(ops[len(ops)-1])
	if dst == "" || strings.HasPrefix(in.Text, "v") {
		return
	}
	v, ok := m.value(ops[0])
	old, had := m.regs[dst]
	set := func(v int64, ok bool) {
		if delete(m.regs, dst); ok {
			m.regs[dst] = v
		}
	}
	switch op := in.mnemonic(); {
	case strings.HasPrefix(op, "mov"):
		set(v, ok)
		return
	case strings.HasPrefix(op, "lea"):
		set(m.address(ops[0]))
		return
	case strings.HasPrefix(op, "cmov"):
		if !m.known {
			set(0, false)
		} else if m.holds(strings.TrimPrefix(op, "cmov")) {
			set(v, ok)
		}
		return
	case op == "imul" && len(ops) == 3:
		by, has := m.value(ops[1])
		v, ok = v*by, ok && has
	case op == "imul":
		v, ok = v*old, ok && had
	case op == "test":
		m.flags, m.known = old&v, ok && had
		return
	case op == "shl":
		v, ok = old<<uint(v&63), ok && had
	case op == "shr":
		v, ok = int64(uint64(old)>>uint(v&63)), ok && had
	case op == "dec":
		v, ok = old-1, had
	case op == "inc":
		v, ok = old+1, had
	case op == "and":
		v, ok = old&v, ok && had
	case op == "add":
		v, ok = old+v, ok && had
	case op == "sub":
		v, ok = old-v, ok && had
	case op == "cmp":
		m.flags, m.known = old-v, ok && had
		return
	default:
		ok = false
	}
	set(v, ok)
	m.flags, m.known = v, ok
}

func (m *machine) value(op string) (int64, bool) {
	if s, ok := strings.CutPrefix(op, "$"); ok {
		v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		return int64(v), err == nil
	}
	if v, ok := m.memory[op]; ok {
		return v, true
	}
	v, ok := m.regs[wide(op)]
	return v, ok
}

// address is the value of an address of one register and a displacement.
func (m *machine) address(op string) (int64, bool) {
	at, reg, _ := strings.Cut(strings.TrimSuffix(op, ")"), "(")
	v, ok := m.value(reg)
	if at == "" {
		return v, ok
	}
	d, err := strconv.ParseInt(at, 0, 64)
	return v + d, ok && err == nil
}

// wide is the 64-bit name of a general register, "" if op is none.
func wide(op string) string {
	r, ok := strings.CutPrefix(op, "%")
	switch {
	case !ok || strings.Contains(op, "("):
		return ""
	case len(r) == 3 && r[0] == 'e':
		return "r" + r[1:]
	case r[0] == 'r':
		return strings.TrimSuffix(r, "d")
	}
	return ""
}
