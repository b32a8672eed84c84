package x86

import (
	"context"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// TestVecOps runs the default configuration of every problem of the common harness, on the ISAs of
// this machine.
func TestVecOps(t *testing.T) {
	problems := append(kerneltest.QuantProblems(), kerneltest.RopeProblems()...)
	problems = append(problems, kerneltest.AttnProblems()...)
	problems = append(problems, kernel.Problem{Op: kernel.OpScale})
	eachISA(t, func(t *testing.T, isa ISA) {
		b := Backend{ISA: isa, ID: kernel.BackendID{Name: isa.Name}}
		for _, p := range problems {
			s, err := b.Space(context.Background(), isa.Features, p)
			if err != nil {
				t.Fatal(err)
			}
			art, err := b.Emit(context.Background(), isa.Features, p, s.Default())
			if err != nil {
				t.Fatal(err)
			}
			code, err := jit.Map(art.Code)
			if err != nil {
				t.Fatal(err)
			}
			entries := kerneltest.Funcs{}
			for name, at := range art.Entries {
				entries[name] = func(args unsafe.Pointer) { jit.Call0(code.Entry+uintptr(at), args) }
			}
			kerneltest.Test(t, &kerneltest.Heap{}, entries, art)
			code.Free()
		}
	})
}
