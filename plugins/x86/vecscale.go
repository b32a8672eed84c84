package x86

import (
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

func init() {
	generators[kernel.OpScale] = generator{space: scaleSpace, emit: emitScale}
}

func scaleSpace(ISA, kernel.Problem) (kernel.Space, error) {
	return kernel.Space{Version: "1"}, nil
}

// emitScale emits Out[i] = X[i] * *F: four vectors at a time, then single floats.
func emitScale(isa ISA, _ kernel.Problem, _ kernel.Config) (Code, error) {
	const x, out, n = amd64.RSI, amd64.RDX, amd64.RCX
	var args kernel.ScaleArgs
	e := NewEmitter(isa)
	e.arg(amd64.RAX, unsafe.Offsetof(args.F))
	f := e.Vec()
	e.Op(amd64.VBROADCASTSS, f, amd64.M(amd64.RAX, 0))
	e.arg(x, unsafe.Offsetof(args.X))
	e.arg(out, unsafe.Offsetof(args.Out))
	e.arg(n, unsafe.Offsetof(args.N))

	const unroll = 4
	chunk := unroll * isa.Lanes
	single, done := e.NewLabel(), e.NewLabel()
	top := e.Here()
	e.CmpI(n, chunk)
	e.Jcc(amd64.CcL, single)
	v := e.Vecs(unroll)
	for i, r := range v {
		e.Op(amd64.VMULPS, r, f, amd64.M(x, i*isa.Bytes()))
	}
	for i, r := range v {
		e.StoreV(amd64.M(out, i*isa.Bytes()), r)
	}
	e.AddI(x, 4*chunk)
	e.AddI(out, 4*chunk)
	e.SubI(n, chunk)
	e.Jmp(top)

	e.Bind(single)
	e.CmpI(n, 1)
	e.Jcc(amd64.CcL, done)
	e.Op(amd64.VMULSS, Low(v[0]), Low(f), amd64.M(x, 0))
	e.Op(amd64.VMOVSSS, amd64.M(out, 0), Low(v[0]))
	e.AddI(x, 4)
	e.AddI(out, 4)
	e.Dec(n)
	e.Jmp(single)
	e.Bind(done)
	e.Ret()
	return finish(e, kernel.Exec{})
}

// finish makes the code of a generator with the one entry "main" at its start.
func finish(e *Emitter, x kernel.Exec) (Code, error) {
	b, err := e.Code()
	if err != nil {
		return Code{}, err
	}
	return Code{Bytes: b, Entries: map[string]int{kernel.EntryMain: 0}, Exec: x}, nil
}
