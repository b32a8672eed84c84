package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// portable runs every op with the kernels of kernel/ref.
type portable struct{ mr int }

func (portable) Layout(context.Context, model.Class) (kernel.Layout, error) {
	return kernel.Layout{Lanes: 16, Cols: 1}, nil
}

func (portable) Choice(_ context.Context, p kernel.Problem) (kernel.Choice, error) {
	return kernel.Choice{Problem: p, Backend: "portable"}, nil
}

func (b portable) Artifact(_ context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	a := &kernel.Artifact{Kind: kernel.KindGo, Key: kernel.ArtifactKey{Problem: c.Problem, Config: c.Config,
		LayoutVersion: kernel.LayoutVersion, ABI: kernel.ABIGo, Backend: kernel.BackendID{Name: c.Backend}}}
	if c.Problem.Op == kernel.OpLinear {
		a.Exec.MR = 1
		if c.Problem.M > 1 {
			a.Exec.MR = b.mr
		}
	}
	return a, nil
}

func options(w model.Weights) engine.Options {
	return engine.Options{Numerics: model.Numerics{Weights: w}, Plan: portable{4}, Source: portable{4}}
}

// load loads a model for the length of the test.
func load(t testing.TB, m *model.Model, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Load(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func open(t testing.TB, path string) *model.Model {
	t.Helper()
	m, err := engine.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func session(t testing.TB, e *engine.Engine) *engine.Session {
	t.Helper()
	s, err := e.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func readJSON[T any](t testing.TB, path string) T {
	t.Helper()
	var v T
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func maxDiff(a, b []float32) float64 {
	var d float64
	for i := range a {
		x := float64(a[i]) - float64(b[i])
		if x != x {
			return x
		}
		d = max(d, x, -x)
	}
	return d
}
