package probe

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/generic"
)

func problem(k int) kernel.Problem {
	f := kernel.Asym(32)
	return kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 1, N: 48, K: k, Format: f,
		Layout: kernel.Layout{Lanes: 16, Cols: 1}, Act: kernel.Act{Group: 32}}
}

func emit(t testing.TB, b kernel.Backend, host kernel.Features, p kernel.Problem) *kernel.Artifact {
	s, err := b.Space(t.Context(), host, p)
	if err != nil {
		t.Fatal(err)
	}
	a, err := b.Emit(t.Context(), host, p, s.Default())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func native(t testing.TB, k int) *kernel.Artifact {
	if runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("needs AVX2")
	}
	return emit(t, avx2.New("test"), kernel.NewFeatures("avx2", "fma", "f16c"), problem(k))
}

func TestGoodArtifactsPass(t *testing.T) {
	for _, a := range []*kernel.Artifact{emit(t, generic.New("test"), nil, problem(128)), native(t, 128)} {
		if err := Check(a); err != nil {
			t.Errorf("check of %s: %v", a.Key.Backend.Name, err)
		}
		if err := Golden(a); err != nil {
			t.Errorf("golden of %s: %v", a.Key.Backend.Name, err)
		}
	}
}

func TestWrongNumbersAndFaultsAreReported(t *testing.T) {
	a := native(t, 128)
	wrong := *a
	wrong.Key.Problem.Format.Bias = 8 // the code was made for another format
	for name, check := range map[string]func(*kernel.Artifact) error{"check": Check, "golden": Golden} {
		if err := check(&wrong); err == nil {
			t.Errorf("%s accepted code of another format", name)
		}
	}
	fault := *a
	fault.Code = []byte{0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0xc3} // mov rax, [0]; ret
	fault.Entries = map[string]int{kernel.EntryMain: 0}
	if err := Golden(&fault); err == nil || !strings.Contains(err.Error(), "fault") {
		t.Errorf("a fault gave %v", err)
	}
}

// The golden checks of a whole model take at most 50 ms: about a dozen artifacts.
func BenchmarkGolden(b *testing.B) {
	a := native(b, 2048)
	for b.Loop() {
		if err := Golden(a); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck is what a tune pays for a candidate before it may run in a step.
func BenchmarkCheck(b *testing.B) {
	for _, m := range []int{1, 512} {
		p := problem(256)
		p.M, p.Format, p.Act.Group = m, kernel.Asym(128), 128
		a := emit(b, avx2.New("test"), kernel.NewFeatures("avx2", "fma", "f16c"), p)
		b.Run(p.String(), func(b *testing.B) {
			for b.Loop() {
				if err := Check(a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
