package resolve

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/tuner/probe"
)

// starter serves all that an engine asks for at start for a model of 1.7 billion weights.
type starter struct {
	b      *testing.B
	target Target
	suite  *kernel.Suite
	asked  []kernel.Choice
	served map[string]*kernel.Artifact // by goldenID
}

func newStarter(b *testing.B) *starter {
	if runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		b.Skip("needs AVX2")
	}
	m, err := engine.Preset("spark-1.7b")
	if err != nil {
		b.Fatal(err)
	}
	f := kernel.NewFeatures("avx2", "fma", "f16c")
	t := testTarget(b)
	t.Model, t.Host.Features = m, f
	t.Backends = map[string]BackendInfo{"avx2": {"a0", "1"}, "generic": {"g0", "1"}}
	return &starter{b: b, target: t, suite: &kernel.Suite{Host: f, Backends: map[string]kernel.Backend{
		"avx2": avx2.New("a0"), "generic": generic.New("g0")}}, served: map[string]*kernel.Artifact{}}
}

// start returns the number of artifacts served and of those that were checked.
func (s *starter) start(store *cache.Store) (served, checked int) {
	ctx := context.Background()
	p, err := New(s.target, Options{Store: store, Knobs: kernel.DefaultKnobs(2),
		Suite: func(context.Context) (*kernel.Suite, error) { return s.suite, nil }})
	if err != nil {
		s.b.Fatal(err)
	}
	have := map[kernel.Problem]*kernel.Artifact{} // as an engine's library does
	serve := func(prob kernel.Problem) *kernel.Artifact {
		if a := have[prob]; a != nil {
			return a
		}
		c, err := p.Choice(ctx, prob)
		if err != nil {
			s.b.Fatal(err)
		}
		a, err := p.Artifact(ctx, c)
		if err != nil {
			s.b.Fatal(err)
		}
		if _, ok := (kernel.Arm{Choices: s.asked}).Find(prob); !ok {
			s.asked = append(s.asked, c)
		}
		served++
		have[prob], s.served[goldenID(a)] = a, a
		return a
	}
	classes, err := s.target.Model.Classes(s.target.Numerics)
	if err != nil {
		s.b.Fatal(err)
	}
	for _, c := range classes {
		l, err := p.Layout(ctx, c)
		if err != nil {
			s.b.Fatal(err)
		}
		for _, m := range kernel.MPoints {
			prob := c.Problem(s.target.Numerics.Weights, m, l)
			a := serve(prob)
			if prob.Format.IsFloat() {
				continue
			}
			serve(kernel.Problem{Op: kernel.OpQuant, K: prob.K, Pre: kernel.PreAddNorm,
				Act: kernel.Act{Arith: prob.Arith, Group: prob.Format.Group, MR: a.Exec.MR}})
		}
	}
	d := s.target.Model.Spec.HeadDim
	for _, prob := range []kernel.Problem{{Op: kernel.OpScale},
		{Op: kernel.OpRope, Dim: d, Rot: s.target.Model.Spec.Ropes[0].Rot(), Elem: kernel.ElemF32},
		{Op: kernel.OpRope, Dim: d, Rot: s.target.Model.Spec.Ropes[0].Rot(), Elem: kernel.ElemF16},
		{Op: kernel.OpAttn, Dim: d, M: s.target.Model.Spec.Group(), Elem: kernel.ElemF16},
		{Op: kernel.OpAttn, Dim: d, M: 32, Elem: kernel.ElemF16}} {
		serve(prob)
	}
	return served, len(p.checked)
}

// What a warm cache costs at start, golden checks included: at most 50 ms.
func BenchmarkWarmStart(b *testing.B) {
	s := newStarter(b)
	dir := filepath.Join(b.TempDir(), "c")
	first := cache.Open(cache.Options{Dir: dir})
	s.start(first)
	key, err := s.target.DecisionKey()
	if err != nil {
		b.Fatal(err)
	}
	if err := first.PutDecision(cache.Decision{Key: key, Arm: kernel.Arm{Choices: s.asked, Knobs: kernel.DefaultKnobs(2)}}); err != nil {
		b.Fatal(err)
	}
	first.Close()
	for b.Loop() {
		store := cache.Open(cache.Options{Dir: dir})
		served, checked := s.start(store)
		store.Close()
		b.ReportMetric(float64(served), "served")
		b.ReportMetric(float64(checked), "checked")
	}
}

// The same without a cache: emission in this process, golden checks included.
func BenchmarkColdStart(b *testing.B) {
	s := newStarter(b)
	for b.Loop() {
		s.start(nil)
	}
}

// The golden checks of a start, alone: at most 50 ms in all.
func BenchmarkGoldenOfStart(b *testing.B) {
	s := newStarter(b)
	s.start(nil)
	b.ReportMetric(float64(len(s.served)), "artifacts")
	for b.Loop() {
		for _, a := range s.served {
			if err := probe.Golden(a); err != nil {
				b.Fatal(err)
			}
		}
	}
}
