package x86

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// TestQuantSpaces: the default of every group size lies in its space, and the whole space can be emitted,
// so that registers never run out.
func TestQuantSpaces(t *testing.T) {
	steps := []kernel.Problem{{Pre: kernel.PreNone}, {Pre: kernel.PreAddNorm}, {Pre: kernel.PreGLU, Gate: kernel.GateSiLU},
		{Pre: kernel.PreGLU, Gate: kernel.GateGELU}, {Pre: kernel.PreGLU, Gate: kernel.GateGELUTan}}
	for _, isa := range []ISA{AVX2, AVX512} {
		for group := 16; group <= 256; group += 16 {
			for _, arith := range []kernel.Arith{kernel.A8, kernel.A16} {
				for _, p := range steps {
					p.Op, p.K, p.Act = kernel.OpQuant, 3*group, kernel.Act{Arith: arith, Group: group, MR: 2}
					s := spaceOf(t, isa, p)
					if err := s.Check(s.Default()); err != nil {
						t.Errorf("%s %s: %v", isa.Name, p, err)
					}
					for _, c := range configs(s) {
						emit(t, isa, p, c)
					}
				}
			}
		}
	}
}
