package kernel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// fake is a backend of one op that answers with its own name as a parameter.
type fake struct {
	name string
	op   kernel.Op
	err  error
}

func (f fake) Manifest(context.Context) (kernel.Manifest, error) {
	return kernel.Manifest{Name: f.name}, nil
}

func (f fake) Layouts(context.Context, kernel.Features, kernel.Format) ([]kernel.Layout, error) {
	if f.op != kernel.OpLinear {
		return nil, kernel.ErrUnsupported
	}
	return []kernel.Layout{{Lanes: len(f.name), Cols: 1}}, f.err
}

func (f fake) Space(_ context.Context, _ kernel.Features, p kernel.Problem) (kernel.Space, error) {
	if f.err != nil {
		return kernel.Space{}, f.err
	}
	if p.Op != f.op {
		return kernel.Space{}, kernel.ErrUnsupported
	}
	return kernel.Space{Params: []kernel.Param{{Name: f.name, Values: []int64{7}, Default: 7}}}, nil
}

func (f fake) Emit(_ context.Context, _ kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	return &kernel.Artifact{Key: kernel.ArtifactKey{Problem: p, Config: c}}, nil
}

func TestSuiteDefault(t *testing.T) {
	ctx := context.Background()
	s := kernel.Suite{Backends: map[string]kernel.Backend{
		"generic": fake{name: "generic", op: kernel.OpLinear},
		"avx2":    fake{name: "avx2", op: kernel.OpScale},
	}}
	if !slices.Equal(s.Names(), []string{"avx2", "generic"}) {
		t.Errorf("order is %v", s.Names())
	}
	c, err := s.Default(ctx, kernel.Problem{Op: kernel.OpLinear})
	if err != nil || c.Backend != "generic" || c.Config["generic"] != 7 {
		t.Errorf("linear: %+v, %v", c, err)
	}
	if c, err = s.Default(ctx, kernel.Problem{Op: kernel.OpScale}); err != nil || c.Backend != "avx2" {
		t.Errorf("scale: %+v, %v", c, err)
	}
	if a, err := s.Emit(ctx, c); err != nil || a.Key.Config["avx2"] != 7 {
		t.Errorf("emit: %+v, %v", a, err)
	}
	if _, err := s.Default(ctx, kernel.Problem{Op: kernel.OpAttn}); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("attn: %v", err)
	}
	if l, err := s.Layout(ctx, kernel.FormatQ4_0); err != nil || l.Lanes != len("generic") {
		t.Errorf("layout: %v, %v", l, err)
	}
	if _, err := s.Emit(ctx, kernel.Choice{Backend: "neon"}); err == nil || !strings.Contains(err.Error(), "neon") {
		t.Errorf("emit by an absent backend: %v", err)
	}
}

// A backend that fails is skipped, and that is said; the next one serves. Where none does, the failure is
// what is reported, not that nobody does it; who goes away gets no other answer.
func TestSuiteFailures(t *testing.T) {
	ctx, broken := context.Background(), errors.New("plugin died")
	var skipped []string
	s := kernel.Suite{Order: []string{"b", "a"}, Skipped: func(n string, err error) { skipped = append(skipped, n+": "+err.Error()) },
		Backends: map[string]kernel.Backend{"a": fake{name: "a", op: kernel.OpLinear}, "b": fake{name: "b", op: kernel.OpLinear, err: broken}}}
	if c, err := s.Default(ctx, kernel.Problem{Op: kernel.OpLinear}); err != nil || c.Backend != "a" {
		t.Errorf("default: %+v, %v", c, err)
	}
	if l, err := s.Layout(ctx, kernel.FormatQ4_0); err != nil || l.Lanes != 1 {
		t.Errorf("layout: %v, %v", l, err)
	}
	if len(skipped) != 2 || !strings.HasPrefix(skipped[0], "b: space of linear") || !strings.HasPrefix(skipped[1], "b: layouts of ") {
		t.Errorf("skipped %q", skipped)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Default(gone, kernel.Problem{Op: kernel.OpLinear}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := s.Layout(gone, kernel.FormatQ4_0); !errors.Is(err, context.Canceled) || len(skipped) != 2 {
		t.Errorf("cancelled: %v, %q", err, skipped)
	}
	delete(s.Backends, "a")
	s.Skipped = nil
	if _, err := s.Default(ctx, kernel.Problem{Op: kernel.OpLinear}); !errors.Is(err, broken) || errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("default of the broken one alone: %v", err)
	}
	if _, err := s.Layout(ctx, kernel.FormatQ4_0); !errors.Is(err, broken) || errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("layout of the broken one alone: %v", err)
	}
	s.Backends = nil
	if _, err := s.Layout(ctx, kernel.FormatQ4_0); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("no backends: %v", err)
	}
}

func TestArmFind(t *testing.T) {
	p := kernel.Problem{Op: kernel.OpLinear, M: 1, N: 64, K: 64, Layout: kernel.Layout{Lanes: 16, Cols: 2}}
	arm := kernel.Arm{Choices: []kernel.Choice{{Problem: kernel.Problem{Op: kernel.OpScale}, Backend: "x"}, {Problem: p, Backend: "avx2"}}}
	for _, l := range []kernel.Layout{p.Layout, {}} {
		q := p
		q.Layout = l
		if c, ok := arm.Find(q); !ok || c.Backend != "avx2" {
			t.Errorf("layout %s: %+v, %t", l, c, ok)
		}
	}
	q := p
	q.Layout.Cols = 1
	if _, ok := arm.Find(q); ok {
		t.Error("found a choice of another layout")
	}
}

func TestDefaultKnobs(t *testing.T) {
	k := kernel.DefaultKnobs(3)
	if k.ThreadsDecode != 3 || k.ThreadsPrefill != 3 || k.PrefillChunk < 1 || k.RepackRows < 1 || k.KV == "" {
		t.Errorf("%+v", k)
	}
	if err := kernel.Supported(); err != nil {
		t.Error(err)
	}
}
