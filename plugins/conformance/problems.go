package conformance

import (
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

var (
	allOps = []kernel.Op{kernel.OpLinear, kernel.OpQuant, kernel.OpRope, kernel.OpAttn, kernel.OpScale, kernel.OpPack,
		kernel.OpStream, kernel.OpPeak}
	formats = kerneltest.Formats
)

// candidates are the problems of an op that the harness has oracles for, in one layout.
func candidates(op kernel.Op, l kernel.Layout) []kernel.Problem {
	switch op {
	case kernel.OpLinear:
		var out []kernel.Problem
		for _, f := range formats {
			for _, a := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
				if f.Arith(a) != a {
					continue
				}
				for _, m := range kernel.MPoints {
					out = append(out, kerneltest.LinearProblems(m, a, f, l)...)
				}
			}
		}
		return out
	case kernel.OpQuant:
		return kerneltest.QuantProblems()
	case kernel.OpRope:
		return kerneltest.RopeProblems()
	case kernel.OpAttn:
		return kerneltest.AttnProblems()
	}
	var out []kernel.Problem
	for _, p := range kerneltest.SmallProblems(l) {
		if p.Op == op {
			out = append(out, p)
		}
	}
	return out
}
