package x86

import (
	"errors"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

// errRegisters is reported when a configuration needs more vector registers than the ISA has.
var errRegisters = errors.New("out of vector registers")

// Emitter is an assembler for one ISA with a vector register file. Errors stick: after a failed
// allocation emission goes on harmlessly and Finish reports it.
type Emitter struct {
	*amd64.Asm
	ISA  ISA
	free []int // ascending
	err  error
}

// NewEmitter returns an emitter with all registers free.
func NewEmitter(isa ISA) *Emitter {
	e := &Emitter{Asm: &amd64.Asm{Buf: make([]byte, 0, 4<<10), VEXOnly: !isa.EVEX}, ISA: isa}
	for n := range isa.Regs {
		e.free = append(e.free, n)
	}
	return e
}

// Vec takes a free register.
func (e *Emitter) Vec() amd64.Vec {
	if len(e.free) == 0 {
		if e.err == nil {
			e.err = fmt.Errorf("%w (%s has %d)", errRegisters, e.ISA.Name, e.ISA.Regs)
		}
		return e.ISA.Reg(0)
	}
	n := e.free[0]
	e.free = e.free[1:]
	return e.ISA.Reg(n)
}

// Vecs takes n registers.
func (e *Emitter) Vecs(n int) []amd64.Vec {
	v := make([]amd64.Vec, n)
	for i := range v {
		v[i] = e.Vec()
	}
	return v
}

// Release gives registers back.
func (e *Emitter) Release(v ...amd64.Vec) {
	for _, r := range v {
		e.free = append(e.free, int(r.N))
	}
}

// Free is the number of registers that Vec can still give.
func (e *Emitter) Free() int { return len(e.free) }

// Finish resolves labels and returns the code.
func (e *Emitter) Code() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	code := e.Asm.Finish()
	return code, e.Asm.Err()
}

// Const32 fills every lane of v with a 32-bit pattern. It clobbers RAX.
func (e *Emitter) Const32(v amd64.Vec, bits uint32) {
	e.MovI(amd64.RAX, int64(bits))
	if e.ISA.EVEX {
		e.Op(amd64.VPBROADCASTDR, v, amd64.RAX)
		return
	}
	e.Op(amd64.VMOVD, Low(v), amd64.RAX)
	e.Op(amd64.VPBROADCASTD, v, Low(v))
}

// ConstF32 fills every lane of v with a float. It clobbers RAX.
func (e *Emitter) ConstF32(v amd64.Vec, f float32) { e.Const32(v, math.Float32bits(f)) }

// Load and Store move a full vector, unaligned.
func (e *Emitter) LoadV(d amd64.Vec, m amd64.Mem)  { e.Op(amd64.VMOVUPS, d, m) }
func (e *Emitter) StoreV(m amd64.Mem, s amd64.Vec) { e.Op(amd64.VMOVUPSS, m, s) }

// Move copies a register.
func (e *Emitter) Move(d, s amd64.Vec) {
	if d != s {
		e.Op(amd64.VMOVUPS, d, s)
	}
}

// pick chooses between the VEX and the EVEX spelling of an instruction.
func (e *Emitter) pick(vex, evex amd64.Inst) amd64.Inst {
	if e.ISA.EVEX {
		return evex
	}
	return vex
}

// And, Xor and Zero are bitwise; b may be a register or memory.
func (e *Emitter) And(d, a amd64.Vec, b any) { e.Op(e.pick(amd64.VPAND, amd64.VPANDD), d, a, b) }
func (e *Emitter) Xor(d, a amd64.Vec, b any) { e.Op(e.pick(amd64.VPXOR, amd64.VPXORD), d, a, b) }
func (e *Emitter) Zero(d amd64.Vec)          { e.Xor(d, d, d) }
