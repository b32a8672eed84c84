package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/bench"
)

// What a workload needs enlarges the engine's context, not the one that tuned results are kept under;
// what the model does not hold is left out of the suite, and refused alone.
func TestContextOfWorkloads(t *testing.T) {
	load := func(need int) *app.Loaded {
		l, err := app.Load(t.Context(), &cli.Shared{CacheDir: t.TempDir()}, &app.ModelFlags{Preset: "smollm2-135m", Weights: "w4a8", MinContext: need}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l
	}
	plain, deep := load(0), load(100_000)
	if plain.KeyDigest() != deep.KeyDigest() {
		t.Error("the context of a workload is in the key")
	}
	if p, d := plain.Engine.Options().Context, deep.Engine.Options().Context; p != 4096 || d != deep.Model.Spec.Context {
		t.Errorf("contexts %d and %d, want 4096 and the model's %d", p, d, deep.Model.Spec.Context)
	}
	fits, not := bench.TG128, bench.Test{Gen: 1, Depth: deep.Model.Spec.Context}
	f := &benchFlags{suite: true}
	if got, err := f.fitting([]bench.Test{fits, not}, deep); err != nil || !slices.Equal(got, []bench.Test{fits}) {
		t.Errorf("suite: %v, %v", got, err)
	}
	f.suite = false
	if got, err := f.fitting([]bench.Test{fits, not}, deep); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("alone: %v, %v, want a usage error", got, err)
	}
}
