package x86

import (
	"math/rand/v2"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// quantBenchProblems are the fused steps before linear ops, for weights in groups of 32 and 128, one
// row and rows of a block.
func quantBenchProblems() []kernel.Problem {
	var out []kernel.Problem
	for _, pre := range []kernel.Problem{{Pre: kernel.PreAddNorm}, {Pre: kernel.PreGLU, Gate: kernel.GateSiLU}} {
		for _, act := range []kernel.Act{{Arith: kernel.A8, Group: 32, MR: 1}, {Arith: kernel.A8, Group: 32, MR: 8}, {Arith: kernel.A8, Group: 128, MR: 1},
			{Arith: kernel.A8, Group: 128, MR: 8}, {Arith: kernel.A16, Group: 32, MR: 8}, {Arith: kernel.A16, Group: 128, MR: 1}} {
			out = append(out, kernel.Problem{Op: kernel.OpQuant, K: 2048, Act: act, Pre: pre.Pre, Gate: pre.Gate})
		}
	}
	return out
}

func BenchmarkQuant(b *testing.B) {
	for _, s := range isas {
		if !s.native {
			continue
		}
		for _, p := range quantBenchProblems() {
			b.Run(s.isa.Name+"/"+p.String(), func(b *testing.B) {
				call, _ := emitted(b, s.isa, p, nil)
				r := newQuantRow(b, p, 0, rand.New(rand.NewPCG(1, 1)))
				clear(r.y[:len(r.y)/2])
				b.SetBytes(int64(4 * p.K))
				for b.Loop() {
					call(r.args)
				}
			})
		}
	}
}
