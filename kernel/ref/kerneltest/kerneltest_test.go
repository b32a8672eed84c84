package kerneltest

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// goArtifact is a portable kernel of a problem.
func goArtifact(p kernel.Problem, e kernel.Exec) *kernel.Artifact {
	return &kernel.Artifact{Kind: kernel.KindGo, Key: kernel.ArtifactKey{Problem: p, ABI: kernel.ABIGo}, Exec: e}
}

func check(t *testing.T, p kernel.Problem, e kernel.Exec) {
	t.Helper()
	a := goArtifact(p, e)
	fns, err := ref.Build(a)
	if err != nil {
		t.Fatal(err)
	}
	Test(t, &Heap{}, Funcs(fns), a)
}

func TestPortableLinear(t *testing.T) {
	for _, f := range Formats {
		t.Run(f.String(), func(t *testing.T) {
			for _, a := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
				if f.Arith(a) != a {
					continue
				}
				l := kernel.Layout{Lanes: 16, Cols: 1}
				if f.Bits == 8 || f.Group == 64 {
					l = kernel.Layout{Lanes: 4, Cols: 2}
				}
				for i, p := range LinearProblems(1, a, f, l) {
					check(t, p, kernel.Exec{MR: []int{1, 2, 4, 3}[i%4], Streams: 1})
				}
			}
		})
	}
}

func TestPortableQuant(t *testing.T) {
	for _, p := range QuantProblems() {
		check(t, p, kernel.Exec{})
	}
}

func TestPortableOthers(t *testing.T) {
	for _, p := range append(RopeProblems(), AttnProblems()...) {
		check(t, p, kernel.Exec{})
	}
	for _, p := range SmallProblems(kernel.Layout{Lanes: 16, Cols: 2}) {
		check(t, p, kernel.Exec{Unit: ref.StreamUnit})
	}
}
