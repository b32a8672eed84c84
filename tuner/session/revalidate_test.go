package session

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/resolve"
	"github.com/tilewright/tilewright/tuner/runner"
)

func TestMain(m *testing.M) {
	runner.MaybeServe(deps)
	if dir := os.Getenv(envTune); dir != "" {
		os.Exit(tuneTiny(dir))
	}
	m.Run()
}

// testTune is a tune of a small preset on the portable backend, with a store.
func testTune(t *testing.T) *tune {
	m, err := engine.Preset("smollm2-135m")
	if err != nil {
		t.Fatal(err)
	}
	n := model.Numerics{Weights: model.W4A8}
	suite := &kernel.Suite{Backends: map[string]kernel.Backend{"generic": generic.New("g0")}}
	store := cache.Open(cache.Options{Dir: filepath.Join(t.TempDir(), "c")})
	t.Cleanup(store.Close)
	k := kernel.DefaultKnobs(2)
	u := newTune(Options{Suite: suite, Store: store, CPUs: []int{0, 1}, Decode: true, Knobs: k, Memory: 1 << 40,
		Watch: quiet{}, Started: time.Now(), Budget: time.Hour,
		Target: resolve.Target{Model: m, Numerics: n, Context: 1024, CPUs: 2, Backends: map[string]resolve.BackendInfo{"generic": {Digest: "g0", Version: "1"}}}})
	u.res.Floors[phaseDecode] = measure.Floor{Noise: 0.005, Level: measure.Normal}
	if u.classes, err = m.Classes(n); err != nil {
		t.Fatal(err)
	}
	u.lab = newLab(newPlanner(suite, n.Weights), u.lab.watch, runner.Load{})
	t.Cleanup(u.lab.close)
	return u
}

// quiet is a watch that nothing disturbs.
type quiet struct{}

func (quiet) Mark() any            { return nil }
func (quiet) Disturbed(any) string { return "" }

// variant is a choice for the first class at a tuning point that is not the default.
func (t *tune) variant(tb testing.TB, m int) kernel.Choice {
	tb.Helper()
	ctx := context.Background()
	l, err := t.lab.plan.Layout(ctx, t.classes[0])
	if err != nil {
		tb.Fatal(err)
	}
	ch, err := t.Suite.Default(ctx, t.classes[0].Problem(model.W4A8, m, l))
	if err != nil {
		tb.Fatal(err)
	}
	sp, err := t.Suite.Backends["generic"].Space(ctx, nil, ch.Problem)
	if err != nil {
		tb.Fatal(err)
	}
	ch.Config = ch.Config.Clone()
	for _, p := range sp.Params {
		if len(p.Values) > 1 {
			ch.Config[p.Name] = p.Values[0]
			if p.Values[0] == p.Default {
				ch.Config[p.Name] = p.Values[1]
			}
			break
		}
	}
	return ch
}

// stored puts a decision whose arm differs from the default in one configuration.
func (t *tune) stored(tb testing.TB, change func(*cache.Decision)) cache.Decision {
	tb.Helper()
	ch := t.variant(tb, 1)
	var err error
	d := cache.Decision{Arm: kernel.Arm{Knobs: t.Knobs, Choices: []kernel.Choice{ch}},
		Evidence: []cache.Evidence{{Phase: phaseDecode, Decision: "winner"}, {Phase: phasePrefill, Decision: "winner"}}}
	if d.Key, err = t.Target.DecisionKey(); err != nil {
		tb.Fatal(err)
	}
	if change != nil {
		change(&d)
	}
	if err := t.Store.PutDecision(d); err != nil {
		tb.Fatal(err)
	}
	return d
}

// dealii#15873, sglang#5716, vllm#24112 (microcode, another build), TensorComprehensions#230 (imports):
// what is a hint is checked first; what fits, or never won, is not.
func TestWhatIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cache.Decision)
		want   bool
	}{
		"exact":         {nil, false},
		"microcode":     {func(d *cache.Decision) { d.Key.Host.Microcode = "old" }, true},
		"another build": {func(d *cache.Decision) { d.Key.Sources.Engine = "old" }, true},
		"quota":         {func(d *cache.Decision) { d.Key.Host.Quota = "1.50" }, true},
		"imported":      {func(d *cache.Decision) { d.Imported = true }, true},
		"marked":        {func(d *cache.Decision) { d.Stale = true }, true},
		"another host":  {func(d *cache.Decision) { d.Key.Host.CPU = "other" }, false},
		"no winner": {func(d *cache.Decision) {
			d.Stale, d.Evidence = true, []cache.Evidence{{Phase: phaseDecode, Decision: "no winner"}}
		}, false},
		"the other phase": {func(d *cache.Decision) { d.Stale, d.Evidence = true, d.Evidence[1:] }, false},
	} {
		u := testTune(t)
		u.stored(t, c.change)
		if _, why := u.hint(); (why != "") != c.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// The stored arm is composed from today's backends; one that they cannot make, or that asks for more
// than there is, is not.
func TestRecall(t *testing.T) {
	u := testTune(t)
	d := u.stored(t, nil)
	if !u.recall(t.Context(), d) || len(u.best) != 1 {
		t.Fatalf("recalled %v", u.best)
	}
	for name, spoil := range map[string]func(*cache.Decision){
		"threads":       func(d *cache.Decision) { d.Arm.Knobs.ThreadsDecode = 1 << 30 },
		"chunk":         func(d *cache.Decision) { d.Arm.Knobs.PrefillChunk = 0 },
		"KV":            func(d *cache.Decision) { d.Arm.Knobs.KV = "f64" },
		"removed":       func(d *cache.Decision) { d.Arm.Choices[0].Backend = "removed" },
		"not its space": func(d *cache.Decision) { d.Arm.Choices[0].Config = kernel.Config{"nothing": 1} },
	} {
		u := testTune(t)
		if d := u.stored(t, spoil); u.recall(t.Context(), d) || u.changed() {
			t.Errorf("%s: recalled %v", name, u.best)
		}
	}
}

func TestHolds(t *testing.T) {
	u := testTune(t)
	d := u.stored(t, nil)
	won, lost := judged{Verdict: measure.Verdict{Decision: measure.Winner}}, judged{Verdict: measure.Verdict{Decision: measure.NoWinner}}
	if !u.holds(d, confirmation{decode: won, prefill: lost}) {
		t.Error("prefill is not tuned for: it decides nothing")
	}
	u.asked[phasePrefill] = true
	if u.holds(d, confirmation{decode: won, prefill: lost}) || !u.holds(d, confirmation{decode: won, prefill: won}) {
		t.Error("every claim must hold")
	}
}

// A tune that came to no result does not replace a winner by the default.
func TestNoResultKeepsTheWinner(t *testing.T) {
	u := testTune(t)
	d := u.stored(t, nil)
	short := judged{phase: phaseDecode, Verdict: measure.Verdict{Decision: measure.NoWinner, Pairs: 1}}
	full := judged{phase: phaseDecode, Verdict: measure.Verdict{Decision: measure.NoWinner, Pairs: 5}}
	if !u.noResult(d.Key, confirmation{decode: short}) {
		t.Error("one pair replaced a winner")
	}
	if u.noResult(d.Key, confirmation{decode: full}) {
		t.Error("a judged loss was ignored")
	}
	u.res.Floors[phaseDecode] = measure.Floor{Level: measure.Refused}
	if !u.noResult(d.Key, confirmation{decode: full}) {
		t.Error("noise replaced a winner")
	}
	other := d.Key
	other.CPUs++
	if u.noResult(other, confirmation{decode: short}) {
		t.Error("there is nothing to keep")
	}
}
