package x86

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

func TestScale(t *testing.T) {
	eachRig(t, func(t *rig) {
		call, _ := emitted(t, t.isa, kernel.Problem{Op: kernel.OpScale}, nil)
		for _, n := range []int{0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 200, 576} {
			x, out := normals(t, rand.New(rand.NewPCG(1, uint64(n))), n, 1), guarded[float32](t, n)
			_, args := newArgs(t, kernel.ScaleArgs{X: ptr(x), Out: ptr(out), F: one(t, float32(0.37)), N: int64(n)})
			call(args)
			t.check(func() error {
				for i, v := range x {
					if out[i] != v*0.37 {
						return fmt.Errorf("n %d: [%d] = %g, want %g", n, i, out[i], v*0.37)
					}
				}
				return nil
			})
		}
	})
}
