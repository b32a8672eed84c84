package x86

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// Packing and the probes in every configuration, on guarded memory.
func TestPackAndProbes(t *testing.T) {
	var ps []kernel.Problem
	for _, f := range []kernel.Format{kernel.FormatQ4_0, kernel.FormatQ8_0} {
		for _, cols := range []int{1, 2, 4} {
			ps = append(ps, kernel.Problem{Op: kernel.OpPack, Format: f, Layout: kernel.Layout{Lanes: 16, Cols: cols}})
		}
	}
	for _, p := range blockProblems {
		for _, p.Layout.Cols = range []int{1, 2, 4} {
			ps = append(ps, p)
		}
	}
	ps = append(ps, kernel.Problem{Op: kernel.OpStream})
	for _, a := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
		ps = append(ps, kernel.Problem{Op: kernel.OpPeak, Arith: a})
	}
	eachISA(t, func(t *testing.T, isa ISA) {
		for _, p := range ps {
			for _, c := range configs(spaceOf(t, isa, p)) {
				a := emit(t, isa, p, c)
				kerneltest.Test(t, &guardPages{}, load(t, a), a)
			}
		}
	})
}
