package x86

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

func init() {
	generators[kernel.OpStream] = generator{space: streamSpace, emit: emitStream}
	generators[kernel.OpPeak] = generator{space: peakSpace, emit: emitPeak}
}

// streamSpace is the fixed set of which the best is the read ceiling.
func streamSpace(ISA, kernel.Problem) (kernel.Space, error) {
	return kernel.Space{Version: "1", Params: []kernel.Param{
		{Name: parStreams, Doc: "equal parts of the buffer read at once", Values: []int64{1, 2, 4, 8}, Default: 4},
		{Name: parPrefetch, Doc: "bytes ahead to prefetch to the first level", Values: []int64{0, 1024, 4096}, Default: 1024},
	}}, nil
}

// emitStream reads four lines of each stream in an iteration.
func emitStream(isa ISA, _ kernel.Problem, c kernel.Config) (Code, error) {
	const (
		base, base4, stride, stride3, n = amd64.R8, amd64.R9, amd64.R10, amd64.R11, amd64.RCX
		lines                           = 4
	)
	var args kernel.ProbeArgs
	e, streams := NewEmitter(isa), int(c[parStreams])
	e.arg(base, unsafe.Offsetof(args.Buf))
	e.arg(stride, unsafe.Offsetof(args.Bytes))
	e.Shr(stride, bits.Len(uint(streams))-1)
	e.Mov(n, stride)
	e.Shr(n, 8)
	e.Lea(stride3, amd64.MX(stride, stride, 2, 0))
	e.Lea(base4, amd64.MX(base, stride, 4, 0))
	e.Align(32)
	top := e.Here()
	for s := range streams {
		b := [...]amd64.Reg{base, base4}[s/4]
		m := [...]amd64.Mem{amd64.M(b, 0), amd64.MX(b, stride, 1, 0), amd64.MX(b, stride, 2, 0), amd64.MX(b, stride3, 1, 0)}[s%4]
		for i := range lines * 64 / isa.Bytes() {
			e.LoadV(isa.Reg(i), m.Add(i*isa.Bytes()))
			if pf := int(c[parPrefetch]); pf > 0 && i%isa.Halves() == 0 {
				e.Prefetch(1, m.Add(i*isa.Bytes()+pf))
			}
		}
	}
	e.AddI(base, lines*64)
	e.AddI(base4, lines*64)
	e.Dec(n)
	e.Jcc(amd64.CcNE, top)
	e.Ret()
	code, err := e.Code()
	return Code{Bytes: code, Entries: map[string]int{kernel.EntryMain: 0}, Exec: kernel.Exec{Unit: streams * lines * 64}}, err
}

// peakSpace has one point for each arithmetic.
func peakSpace(_ ISA, p kernel.Problem) (kernel.Space, error) {
	if p.Arith != kernel.A8 && p.Arith != kernel.A16 && p.Arith != kernel.F32 {
		return kernel.Space{}, fmt.Errorf("%w: %s: unknown arithmetic", kernel.ErrUnsupported, p)
	}
	return kernel.Space{Version: "1"}, nil
}

// peakChains are independent accumulators: enough to hide 5 cycles of latency at two a cycle.
const peakChains = 10

// peakSteps are dependent accumulations of an iteration, as many as int16 sums of nibbles hold.
const peakSteps = 8

// emitPeak multiplies registers: for each ISA the densest sequence that keeps every sum exact.
func emitPeak(isa ISA, p kernel.Problem, _ kernel.Config) (Code, error) {
	var args kernel.ProbeArgs
	e := NewEmitter(isa)
	chains := peakChains
	nibbles := !isa.VNNI && p.Arith == kernel.A8
	if nibbles {
		chains = peakChains / 2 // of two registers
	}
	acc, sums := e.Vecs(chains), e.Vecs(chains*b2i(nibbles))
	w, a, t := e.Vec(), e.Vec(), e.Vec()
	e.arg(amd64.RSI, unsafe.Offsetof(args.Buf))
	e.LoadV(w, amd64.M(amd64.RSI, 0))
	e.LoadV(a, amd64.M(amd64.RSI, 64))
	for _, v := range acc {
		e.Zero(v)
	}
	var ones any
	if nibbles {
		ones = e.k32(0x00010001)
	}
	e.arg(amd64.RCX, unsafe.Offsetof(args.Iters))
	e.Align(32)
	top := e.Here()
	for step := range peakSteps {
		for i, v := range acc {
			switch {
			case p.Arith == kernel.F32:
				e.Op(amd64.VFMADD231PS, v, w, a)
			case isa.VNNI && p.Arith == kernel.A8:
				e.Op(amd64.VPDPBUSD, v, w, a)
			case isa.VNNI:
				e.Op(amd64.VPDPWSSD, v, w, a)
			case p.Arith == kernel.A16:
				e.Op(amd64.VPMADDWD, t, w, a)
				e.Op(amd64.VPADDD, v, v, t)
			case step == 0:
				e.Op(amd64.VPMADDUBSW, sums[i], w, a)
			default:
				e.Op(amd64.VPMADDUBSW, t, w, a)
				e.Op(amd64.VPADDW, sums[i], sums[i], t)
			}
		}
	}
	for i, s := range sums {
		e.Op(amd64.VPMADDWD, s, s, ones)
		e.Op(amd64.VPADDD, acc[i], acc[i], s)
	}
	e.Dec(amd64.RCX)
	e.Jcc(amd64.CcNE, top)
	e.Ret()
	code, err := e.Code()
	unit := chains * peakSteps * isa.Bytes() / p.Arith.Bytes()
	return Code{Bytes: code, Entries: map[string]int{kernel.EntryMain: 0}, Exec: kernel.Exec{Unit: unit}}, err
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
