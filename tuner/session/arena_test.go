package session

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/runner"
)

// mined spoils the portable kernels of one configuration: chunk=8 of some classes.
func mined(o *Options, spoil func(a *kernel.Artifact)) {
	b := o.Suite.Backends["generic"]
	o.Suite.Backends = map[string]kernel.Backend{"generic": wrapped{b, func(a *kernel.Artifact) *kernel.Artifact {
		if spoil != nil && a.Key.Problem.Op == kernel.OpLinear && a.Key.Config["chunk"] == 8 && a.Key.Problem.M == 1 {
			spoil(a)
		}
		return a
	}}}
}

func code(b ...byte) func(*kernel.Artifact) {
	return func(a *kernel.Artifact) {
		a.Kind, a.Code, a.Key.ABI, a.Entries = kernel.KindCode, b, kernel.ABILeaf, map[string]int{kernel.EntryMain: 0, kernel.EntryTail: 0}
	}
}

// arenaOf is an arena at M=1 over all classes of a tune, and an assignment of chunk=2 to every layer
// but the second of each class named, which carries chunk=8.
func arenaOf(t *testing.T, u *tune, mines ...string) (*arena, []insitu.Assignment) {
	t.Helper()
	a := u.newArena(stage{m: 1, test: bench.Test{Gen: 1, Depth: 16}, warm: 1, repeat: 1}, time.Now().Add(time.Minute))
	var as []insitu.Assignment
	for _, c := range u.classes {
		l, err := u.lab.plan.Layout(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if a.defaults[c.String()], err = u.lab.plan.Choice(t.Context(), c.Problem(model.W4A8, 1, l)); err != nil {
			t.Fatal(err)
		}
		a.classes[c.String()] = c
		x := a.uniform(c.String(), len(runner.LayersOf(c)), kernel.Config{"mr": 1, "chunk": 2})
		for _, m := range mines {
			if c.Role == m {
				x.Config[1%len(x.Config)] = kernel.Config{"mr": 1, "chunk": 8}
			}
		}
		as = append(as, x)
	}
	return a, as
}

// A candidate that ends a step, hangs, is refused or does not run is quarantined, alone; the step
// counts for nobody and the next one goes on without it.
func TestFaultsAreData(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(*kernel.Artifact)
		why     string
		reloads int // after the first load
		native  bool
	}{
		"illegal instruction": {code(0x0f, 0x0b), "crash", 2, true},
		"wild read":           {code(0x31, 0xc0, 0x48, 0x8b, 0x00, 0xc3), "refused", 0, true},
		"hang":                {code(0xeb, 0xfe), "timeout", 2, true},
		"refused":             {func(a *kernel.Artifact) { a.Exec.MR = 1000 }, "refused", 0, false},
		"no code":             {func(a *kernel.Artifact) { a.Kind = "none" }, "refused", 0, false},
		"another problem":     {func(a *kernel.Artifact) { a.Key.Problem.N++ }, "refused", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.native && runtime.GOARCH != "amd64" {
				t.Skip("machine code of amd64")
			}
			u := tinyTune(t, func(o *Options) { mined(o, c.spoil) })
			a, as := arenaOf(t, u, "down")
			a.patience = 3 * time.Second
			got, disturbed, err := a.Step(t.Context(), as)
			if err != nil || disturbed == "" {
				t.Fatalf("%v, disturbed %q", err, disturbed)
			}
			if b := u.res.Blocks[0]; b.Waits != nil || b.Kept != 0 || b.Of != 1 || !strings.HasPrefix(b.Why, "failed: ") {
				t.Errorf("a step that failed counts, or says how long its workers waited: %+v", b)
			}
			check := func(got []insitu.Timing) {
				t.Helper()
				for i, x := range got {
					for j, cfg := range as[i].Config {
						if why := x.Failed[j]; (why != "") != (cfg["chunk"] == 8) || why != "" && !strings.Contains(why, c.why) {
							t.Errorf("%s, layer %d, %s: %q", x.Class, j, cfg, why)
						}
					}
				}
			}
			check(got)
			got, disturbed, err = a.Step(t.Context(), as)
			if err != nil || disturbed != "" {
				t.Fatalf("the step after: %v, disturbed %q", err, disturbed)
			}
			check(got)
			if a.reloads != 1+c.reloads {
				t.Errorf("%d loads", a.reloads)
			}
		})
	}
}

// A receipt that does not show an artifact quarantines that artifact; a step in which nothing new ran
// convicts nobody.
func TestReceiptsConvictNobodyElse(t *testing.T) {
	u := tinyTune(t, func(o *Options) { mined(o, nil) })
	a, as := arenaOf(t, u)
	h, err := a.deal(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.run(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := a.blame(t.Context(), h, &runner.Crash{Reason: "killed"}); err != nil || len(a.bad) != 0 {
		t.Errorf("%v, %v", err, a.bad)
	}
	one := h.Plans[0].Artifacts[0]
	delete(a.proved, one)
	if err := a.blame(t.Context(), h, &runner.Crash{Reason: "killed"}); err != nil || len(a.bad) != 1 || a.bad[one].why == "" {
		t.Errorf("the only one that never ran before was not found: %v, %v", err, a.bad)
	}
	clear(a.bad)
	a.proved[one] = true
	if err := a.blame(t.Context(), h, &runner.Refusal{Job: "step", Why: "context"}); err == nil {
		t.Error("a refusal that is nobody's fault went on")
	}
	a.test = bench.Test{Prompt: 16} // kernels of one row are dealt, and 16 rows run
	a.proved = map[string]bool{}
	got, disturbed, err := a.Step(t.Context(), as)
	if err == nil && disturbed == "" {
		t.Errorf("a step of 16 rows proved kernels of one row: %v", got)
	}
}
