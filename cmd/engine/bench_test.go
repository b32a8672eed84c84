package main

import (
	"errors"
	"testing"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/bench"
)

// What a workload needs enlarges the engine's context, not the one that tuned results are kept under;
// what the model does not hold is refused.
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
	if err := checkFits(fits, deep); err != nil {
		t.Error(err)
	}
	if err := checkFits(not, deep); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("%v, want a usage error", err)
	}
}

func TestSuiteRows(t *testing.T) {
	all := suiteSpecs(2)
	seen := map[string]bool{}
	for _, x := range all {
		if seen[x.name] {
			t.Errorf("two rows %s", x.name)
		}
		seen[x.name] = true
	}
	for _, name := range []string{"w4a8/tg128/t2", "w4a16/pp512/t1", "w4a8/linear-m16/t2", "w4a16/pp512-g32/t1", "w4a8/tg128@d4096:d128/t2", "w4a8/region/t2", "w4a8/load/t2"} {
		if !seen[name] {
			t.Errorf("no row %s in %v", name, rowNames(all))
		}
	}
	for _, c := range []struct {
		patterns []string
		n        int
	}{{nil, len(all)}, {[]string{"w4a8/tg128/t2"}, 1}, {[]string{"w4a8/tg128/*", "w4a8/tg128/t1"}, 2}, {[]string{"*/load/*"}, 2}} {
		got, err := matching(all, c.patterns)
		if err != nil || len(got) != c.n {
			t.Errorf("%q: rows %v, %v, want %d", c.patterns, rowNames(got), err, c.n)
		}
	}
	for _, p := range []string{"w4a8/tg129/t2", "[", ""} {
		if _, err := matching(all, []string{p}); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%q: %v, want a usage error", p, err)
		}
	}
	if one := suiteSpecs(1); len(rowNames(one)) >= len(all) {
		t.Error("one thread is measured twice")
	}
}
