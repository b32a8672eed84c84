package x86

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

func init() {
	generators[kernel.OpPack] = generator{space: packSpace, emit: emitPack}
}

// packSpace has one point: packing is bound by memory.
func packSpace(_ ISA, p kernel.Problem) (kernel.Space, error) {
	if err := checkFormat(p.Format); err != nil {
		return kernel.Space{}, err
	}
	if p.Source != kernel.BlockNone && !p.Source.Packs(p.Format) {
		return kernel.Space{}, fmt.Errorf("%w: %s: blocks %q do not make this format", kernel.ErrUnsupported, p, p.Source)
	}
	if p.Source.Format().IsFloat() && (p.Format.Group != 32 || p.Format.Scale != kernel.ScaleF16) {
		return kernel.Space{}, fmt.Errorf("%w: %s: floats become groups of 32 with f16 scales", kernel.ErrUnsupported, p)
	}
	if p.Format.IsFloat() || p.Layout.Lanes != 16 || p.Layout.Cols < 1 || p.Layout.Cols > 16 {
		return kernel.Space{}, fmt.Errorf("%w: %s: want codes of 4, 6 or 8 bits and 16 lanes", kernel.ErrUnsupported, p)
	}
	return kernel.Space{Version: "1"}, nil
}

// emitPack packs eight channels at a time, 16 k a step: rows c and c+4 share a register, so that a
// 4x4 transpose of dwords within 128-bit lanes makes vectors of one dword of eight channels.
func emitPack(isa ISA, p kernel.Problem, _ kernel.Config) (Code, error) {
	if p.Source != kernel.BlockNone {
		return emitPackBlocks(p)
	}
	var args kernel.PackArgs
	const (
		src, dst, stride, stride3 = amd64.RSI, amd64.RDX, amd64.R10, amd64.R11
		octets, lo, hi, to, steps = amd64.RBX, amd64.R8, amd64.R9, amd64.R12, amd64.RCX
	)
	e := NewEmitter(isa)
	e.arg(src, unsafe.Offsetof(args.Src))
	e.arg(dst, unsafe.Offsetof(args.Dst))
	e.arg(stride, unsafe.Offsetof(args.SrcStride))
	e.Lea(stride3, amd64.MX(stride, stride, 2, 0))
	run := 64 * p.Layout.Cols
	e.times(octets, p.Layout.NR()/8, func() {
		e.Mov(lo, src)
		e.Lea(hi, amd64.MX(src, stride, 4, 0))
		e.Mov(to, dst)
		e.arg(steps, unsafe.Offsetof(args.K))
		e.Shr(steps, 4)
		e.Align(32)
		top := e.Here()
		rows := func(base amd64.Reg) [4]amd64.Mem {
			return [4]amd64.Mem{amd64.M(base, 0), amd64.MX(base, stride, 1, 0), amd64.MX(base, stride, 2, 0), amd64.MX(base, stride3, 1, 0)}
		}
		e.packOctet(p.Format.Bits, to, run, rows(lo), rows(hi))
		e.AddI(lo, 16)
		e.AddI(hi, 16)
		e.AddI(to, p.Format.Bits/2*run)
		e.Dec(steps)
		e.Jcc(amd64.CcNE, top)
		e.Lea(src, amd64.MX(src, stride, 8, 0))
		e.AddI(dst, 32)
	})
	e.Ret()
	code, err := e.Code()
	return Code{Bytes: code, Entries: map[string]int{kernel.EntryMain: 0}}, err
}

// packOctet transposes 16 k of eight rows and stores the runs, one dword of eight channels each.
func (e *Emitter) packOctet(bits int, to amd64.Reg, run int, lo, hi [4]amd64.Mem) {
	y := amd64.Y
	for i := range lo {
		e.Op(amd64.VMOVUPS, amd64.X(i), lo[i])
		e.Op(amd64.VINSERTI128, y(i), y(i), hi[i], 1)
	}
	e.Op(amd64.VPUNPCKLDQ, y(4), y(0), y(1))
	e.Op(amd64.VPUNPCKHDQ, y(5), y(0), y(1))
	e.Op(amd64.VPUNPCKLDQ, y(6), y(2), y(3))
	e.Op(amd64.VPUNPCKHDQ, y(7), y(2), y(3))
	for i := range 2 {
		e.Op(amd64.VPUNPCKLQDQ, y(2*i), y(4+i), y(6+i))
		e.Op(amd64.VPUNPCKHQDQ, y(2*i+1), y(4+i), y(6+i))
	}
	e.storeOctet(bits, amd64.M(to, 0), run, 0, 4)
}

// storeOctet stores the codes of 16 k of eight channels, four k in each of four vectors from y(c) on,
// as runs that lie run bytes apart. It clobbers them and four vectors from y(t) on.
func (e *Emitter) storeOctet(bits int, to amd64.Mem, run, c, t int) {
	at := func(i int) amd64.Mem { m := to; m.Disp += int32(i * run); return m }
	y := func(i int) amd64.Vec { return amd64.Y(c + i) }
	if bits == 8 {
		for i := range 4 {
			e.Op(amd64.VMOVUPSS, at(i), y(i))
		}
		return
	}
	if bits == 6 {
		e.storeUpper(at(2), c, t)
	}
	for i := range 2 { // high nibbles are the next dword
		e.Op(amd64.VPSLLD, y(2*i+1), y(2*i+1), 4)
		e.Op(amd64.VPOR, y(2*i), y(2*i), y(2*i+1))
		e.Op(amd64.VMOVUPSS, at(i), y(2*i))
	}
}

// storeUpper stores the upper two bits of the codes, in bits 2i and 2i+1 those of y(c+i), and clears
// them in the codes.
func (e *Emitter) storeUpper(to amd64.Mem, c, t int) {
	y := amd64.Y
	e.Op(amd64.VPSRLW, y(t), y(c), 4)
	e.Op(amd64.VPSRLW, y(t+1), y(c+1), 2)
	e.Op(amd64.VPSLLW, y(t+3), y(c+3), 2)
	e.Op(amd64.VPAND, y(t), y(t), e.all(0x03))
	e.Op(amd64.VPAND, y(t+1), y(t+1), e.all(0x0c))
	e.Op(amd64.VPAND, y(t+2), y(c+2), e.all(0x30))
	e.Op(amd64.VPAND, y(t+3), y(t+3), e.all(0xc0))
	e.Op(amd64.VPOR, y(t), y(t), y(t+1))
	e.Op(amd64.VPOR, y(t+2), y(t+2), y(t+3))
	e.Op(amd64.VPOR, y(t), y(t), y(t+2))
	e.Op(amd64.VMOVUPSS, to, y(t))
	for i := range 4 {
		e.Op(amd64.VPAND, y(c+i), y(c+i), e.all(0x0f))
	}
}
