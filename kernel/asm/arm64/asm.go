// Package arm64 is a small assembler: the NEON and scalar instructions that a dot-product kernel
// needs. As in package amd64, misuse is recorded and reported by Err.
package arm64

import (
	"encoding/binary"
	"fmt"
)

// X is a 64-bit general register, 0 to 30; 31 is the zero register or the stack pointer.
type X uint32

// V is a 128-bit vector register, 0 to 31.
type V uint32

// Label names a position in the code.
type Label int

// Asm accumulates code. The zero value is ready to use.
type Asm struct {
	Buf    []byte
	labels []int
	fix    []fixup
	err    error
}

type fixup struct {
	at    int
	label Label
}

// Err is the first misuse, nil if there was none. Unbound labels are found by Finish.
func (a *Asm) Err() error { return a.err }

func (a *Asm) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("asm: at offset %d: %s", len(a.Buf), fmt.Sprintf(format, v...))
	}
}

func (a *Asm) w(x uint32) { a.Buf = binary.LittleEndian.AppendUint32(a.Buf, x) }

// NewLabel makes a label to be bound later.
func (a *Asm) NewLabel() Label {
	a.labels = append(a.labels, -1)
	return Label(len(a.labels) - 1)
}

// Bind sets a label of this Asm to the current position.
func (a *Asm) Bind(l Label) {
	if l < 0 || int(l) >= len(a.labels) || a.labels[l] >= 0 {
		a.fail("label %d is unknown or bound twice", l)
		return
	}
	a.labels[l] = len(a.Buf)
}

// Here is a label bound to the current position.
func (a *Asm) Here() Label {
	l := a.NewLabel()
	a.Bind(l)
	return l
}

// Cbnz jumps to l, within 1 MiB, if n is not zero.
func (a *Asm) Cbnz(n X, l Label) {
	a.fix = append(a.fix, fixup{len(a.Buf), l})
	a.w(0xb5000000 | a.x(n))
}

// Finish resolves labels and returns the code: nil if Err is not.
func (a *Asm) Finish() []byte {
	for _, f := range a.fix {
		if f.label < 0 || int(f.label) >= len(a.labels) || a.labels[f.label] < 0 {
			a.fail("jump at offset %d to an unbound label", f.at)
			break
		}
		d := (a.labels[f.label] - f.at) / 4
		if d < -1<<18 || d >= 1<<18 {
			a.fail("jump at offset %d is too far", f.at)
			break
		}
		w := binary.LittleEndian.Uint32(a.Buf[f.at:])
		binary.LittleEndian.PutUint32(a.Buf[f.at:], w|uint32(d)&0x7ffff<<5)
	}
	a.fix = nil
	if a.err != nil {
		return nil
	}
	return a.Buf
}

// x and v check register numbers.
func (a *Asm) x(r X) uint32 {
	if r > 31 {
		a.fail("no register x%d", r)
	}
	return uint32(r & 31)
}

func (a *Asm) v(r V) uint32 {
	if r > 31 {
		a.fail("no register v%d", r)
	}
	return uint32(r & 31)
}

// field checks an unsigned field: v must be a multiple of unit, v/unit at most max.
func (a *Asm) field(v, unit, max uint32) uint32 {
	if v%unit != 0 || v/unit > max {
		a.fail("%d is not a multiple of %d up to %d", v, unit, max*unit)
	}
	return v / unit & max
}
