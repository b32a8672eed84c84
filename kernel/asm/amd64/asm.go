// Package amd64 is a table-driven x86-64 assembler: VEX, EVEX and AMX instructions and the scalar
// ones that kernels need. An Asm accumulates code; misuse (an operand an instruction does not take,
// an unbound label) is recorded and reported by Err, so that generators need no error handling
// between instructions.
package amd64

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Asm accumulates code. The zero value is ready to use.
type Asm struct {
	Buf     []byte
	VEXOnly bool // encode with VEX what has both encodings (AVX2, AVX-VNNI); EVEX is then an error

	labels []int // offset, or -1
	fix    []fixup
	rip    []ripFix
	pool   []constant
	err    error
	done   bool
}

// Label names a position in the code.
type Label int

type fixup struct {
	at    int // position of the rel32
	label Label
}

type ripFix struct {
	at, end int // position of the disp32, end of its instruction (0: not yet known)
	pool    int
}

type constant struct {
	data  []byte
	align int
	off   int // offset in the code, set by Finish
}

// Err is the first misuse, nil if there was none. Unbound labels are found by Finish.
func (a *Asm) Err() error { return a.err }

func (a *Asm) fail(err error) {
	if a.err == nil {
		a.err = fmt.Errorf("asm: at offset %d: %w", len(a.Buf), err)
	}
}

func (a *Asm) b(x ...byte) { a.Buf = append(a.Buf, x...) }
func (a *Asm) i32(x int32) { a.Buf = binary.LittleEndian.AppendUint32(a.Buf, uint32(x)) }

// NewLabel makes a label to be bound later.
func (a *Asm) NewLabel() Label {
	a.labels = append(a.labels, -1)
	return Label(len(a.labels) - 1)
}

// Bind sets a label to the current position.
func (a *Asm) Bind(l Label) {
	if !a.validLabel(l) {
		return
	}
	if a.labels[l] >= 0 {
		a.fail(errors.New("label bound twice"))
	}
	a.labels[l] = len(a.Buf)
}

// Here is a label bound to the current position.
func (a *Asm) Here() Label {
	l := a.NewLabel()
	a.Bind(l)
	return l
}

// Offset is the position of a bound label, such as an entry of the code; -1 if it is not bound.
func (a *Asm) Offset(l Label) int {
	if !a.validLabel(l) {
		return -1
	}
	return a.labels[l]
}

func (a *Asm) validLabel(l Label) bool {
	if l < 0 || int(l) >= len(a.labels) {
		a.fail(fmt.Errorf("label %d was not made by this Asm", l))
		return false
	}
	return true
}

// Condition codes of Jcc and Cmov. B, AE, BE, A compare unsigned, L, GE, LE, G signed numbers.
const (
	CcB, CcAE, CcE, CcNE, CcBE, CcA = 2, 3, 4, 5, 6, 7
	CcS, CcNS, CcP, CcNP            = 8, 9, 10, 11
	CcL, CcGE, CcLE, CcG            = 12, 13, 14, 15
)

// Jcc jumps to l if the condition holds.
func (a *Asm) Jcc(cc uint8, l Label) { a.jump([]byte{0x70 | cc&15}, []byte{0x0f, 0x80 | cc&15}, l) }

// Jmp jumps to l.
func (a *Asm) Jmp(l Label) { a.jump([]byte{0xeb}, []byte{0xe9}, l) }

// jump emits the short form when the target is known and near.
func (a *Asm) jump(short, long []byte, l Label) {
	if !a.validLabel(l) {
		return
	}
	if to := a.labels[l]; to >= 0 {
		if d := to - len(a.Buf) - len(short) - 1; d >= math.MinInt8 {
			a.b(short...)
			a.b(byte(d))
			return
		}
	}
	a.b(long...)
	a.fix = append(a.fix, fixup{len(a.Buf), l})
	a.i32(0)
}

// Const puts data into a constant pool behind the code and returns it as an operand. Constants are
// aligned to their size, up to 64 bytes (the code itself must lie at a multiple of 64); equal
// constants share their place.
func (a *Asm) Const(data []byte) Mem {
	align := 4
	for align < len(data) && align < 64 {
		align *= 2
	}
	for i, c := range a.pool {
		if string(c.data) == string(data) {
			return Mem{Base: RIP, pool: i + 1}
		}
	}
	a.pool = append(a.pool, constant{data: append([]byte(nil), data...), align: align})
	return Mem{Base: RIP, pool: len(a.pool)}
}

// endRIP notes the end of an instruction: rip-relative displacements count from there.
func (a *Asm) endRIP() {
	if n := len(a.rip); n > 0 && a.rip[n-1].end == 0 {
		a.rip[n-1].end = len(a.Buf)
	}
}

var nops = [...]string{1: "\x90", 2: "\x66\x90", 3: "\x0f\x1f\x00", 4: "\x0f\x1f\x40\x00",
	5: "\x0f\x1f\x44\x00\x00", 6: "\x66\x0f\x1f\x44\x00\x00", 7: "\x0f\x1f\x80\x00\x00\x00\x00",
	8: "\x0f\x1f\x84\x00\x00\x00\x00\x00"}

// Align pads with no-ops to a multiple of n, a power of two.
func (a *Asm) Align(n int) {
	for p := -len(a.Buf) & (n - 1); p > 0; {
		q := min(p, 8)
		a.b([]byte(nops[q])...)
		p -= q
	}
}

// Finish resolves labels, appends the constant pool and returns the code: nil if Err is not.
func (a *Asm) Finish() []byte {
	if !a.done {
		a.done = true
		a.placePool()
		for _, f := range a.fix {
			to := a.labels[f.label]
			if to < 0 {
				a.fail(fmt.Errorf("jump at offset %d to an unbound label", f.at))
				break
			}
			binary.LittleEndian.PutUint32(a.Buf[f.at:], uint32(to-f.at-4))
		}
	}
	if a.err != nil {
		return nil
	}
	return a.Buf
}

func (a *Asm) placePool() {
	if len(a.pool) == 0 {
		return
	}
	for len(a.Buf)%64 != 0 {
		a.b(0xcc)
	}
	for i := range a.pool {
		c := &a.pool[i]
		for len(a.Buf)%c.align != 0 {
			a.b(0)
		}
		c.off = len(a.Buf)
		a.b(c.data...)
	}
	for _, f := range a.rip {
		d := binary.LittleEndian.Uint32(a.Buf[f.at:])
		binary.LittleEndian.PutUint32(a.Buf[f.at:], d+uint32(a.pool[f.pool].off-f.end))
	}
}
