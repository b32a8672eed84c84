package kerneltest

import (
	"github.com/tilewright/tilewright/kernel"
)

// Golden is a quick check of an artifact before its first use: one random case at the artifact's own
// reduction length, for as few channels and rows as one call takes. Check is the thorough one.
func Golden(mem Allocator, run Runner, a *kernel.Artifact) error {
	if a.Key.Problem.Op != kernel.OpLinear {
		return nil // the other ops are few, small, and checked whole when they are built
	}
	b := newBench(mem, run, a)
	if n := b.p.Layout.NR() * max(1, b.e.Streams); n < b.p.N {
		b.p.N = n
	}
	var errs []error
	b.try(&errs, "golden", func() error {
		w, acts := b.linearData(linearCases[0], b.e.MR)
		return b.linearCase(w, acts, false)
	})
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}
