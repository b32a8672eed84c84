package resolve

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/generic"
)

// lazy is a backend whose code returns at once.
type lazy struct{ kernel.Backend }

func (l lazy) Emit(ctx context.Context, h kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	a, err := l.Backend.Emit(ctx, h, p, c)
	if err != nil {
		return nil, err
	}
	a.Kind, a.Key.ABI, a.Key.Backend = kernel.KindCode, kernel.ABILeaf, kernel.BackendID{Name: "lazy", Digest: "l0"}
	a.Code = []byte{0xc3}
	if runtime.GOARCH == "arm64" {
		a.Code = []byte{0xc0, 0x03, 0x5f, 0xd6}
	}
	a.Entries = map[string]int{kernel.EntryMain: 0, kernel.EntryTail: 0, kernel.EntryUnpack: 0}
	return a, nil
}

// world is a target, a store and backends that count their starts.
type world struct {
	t      testing.TB
	target Target
	store  *cache.Store
	suite  *kernel.Suite
	starts int
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, target: testTarget(t), store: cache.Open(cache.Options{Dir: filepath.Join(t.TempDir(), "c")})}
	t.Cleanup(w.store.Close)
	g := generic.New("g0")
	w.suite = &kernel.Suite{Backends: map[string]kernel.Backend{"generic": g, "lazy": lazy{g}}, Order: []string{"lazy", "generic"}}
	w.target.Backends["lazy"] = BackendInfo{"l0", "1"}
	return w
}

func (w *world) plan(store *cache.Store) *Plan {
	w.t.Helper()
	p, err := New(w.target, Options{Store: store, Knobs: kernel.DefaultKnobs(2),
		Suite: func(context.Context) (*kernel.Suite, error) { w.starts++; return w.suite, nil }})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// problem is a decode problem of the model.
func (w *world) problem() kernel.Problem {
	classes, err := w.target.Model.Classes(w.target.Numerics)
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := w.suite.Layout(context.Background(), classes[0].Format)
	if err != nil {
		w.t.Fatal(err)
	}
	return classes[0].Problem(model.W4A8, 1, l)
}

// tuned puts a decision whose arm serves the problem with a backend.
func (w *world) tuned(backend string, change func(*cache.Decision)) cache.Decision {
	key, err := w.target.DecisionKey()
	if err != nil {
		w.t.Fatal(err)
	}
	sp, err := w.suite.Backends["generic"].Space(context.Background(), nil, w.problem())
	if err != nil {
		w.t.Fatal(err)
	}
	d := cache.Decision{Key: key, Arm: kernel.Arm{Knobs: kernel.DefaultKnobs(1),
		Choices: []kernel.Choice{{Problem: w.problem(), Backend: backend, Config: sp.Default()}}},
		Evidence: []cache.Evidence{{Phase: "decode", Default: 90, Winner: 100, Ratio: 1.1, Decision: "winner"}}}
	if change != nil {
		change(&d)
	}
	if err := w.store.PutDecision(d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) serve(p *Plan) (*kernel.Artifact, error) {
	c, err := p.Choice(context.Background(), w.problem())
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Artifact(context.Background(), c)
}

// vllm#52192: exact, or a hint that is said; never a near match.
func TestOnlyWhatFitsIsRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cache.Decision)
		tuning Tuning
		line   string
	}{
		"exact": {nil, TuningExact, "tuned for this model (decode 1.10x the default)"},
		"no winner": {func(d *cache.Decision) {
			d.Evidence = append(d.Evidence, cache.Evidence{Phase: "prefill", Decision: "no winner", Why: "budget"})
		}, TuningExact, "tuned for this model (decode 1.10x the default, prefill default kept: budget)"},
		"another build": {func(d *cache.Decision) { d.Key.Sources.Engine = "old" }, TuningNone, "wants revalidation (Sources.Engine changed)"},
		"imported":      {func(d *cache.Decision) { d.Imported = true }, TuningNone, "imported"},
		"marked": {func(d *cache.Decision) { d.Stale, d.Notes = true, map[string]string{"revalidate": "slow"} }, TuningExact,
			"marked: slow: run tune"},
		"fewer CPUs": {func(d *cache.Decision) { d.Key.CPUs-- }, TuningNone, "untuned, running the defaults"},
	} {
		w := newWorld(t)
		w.tuned("generic", c.change)
		p := w.plan(w.store)
		if p.Tuning != c.tuning || !strings.Contains(p.Line, c.line) {
			t.Errorf("%s: %s, %q", name, p.Tuning, p.Line)
		}
	}
}

// aiter#4301: a row that names a removed kernel. pytorch#193951: one that computes something else. The
// default runs instead, not silently, not called tuned, and the next tune looks at it.
func TestFallbackIsLoud(t *testing.T) {
	for _, backend := range []string{"removed", "lazy"} {
		w := newWorld(t)
		w.tuned(backend, nil)
		p := w.plan(w.store)
		a, err := w.serve(p)
		if err != nil || a.Key.Backend.Name != "generic" {
			t.Fatalf("%s: %v %v", backend, a, err)
		}
		if p.Tuning != TuningNone || !strings.Contains(p.Line, "1 kernel(s) could not be used") || strings.Contains(p.Line, "\n") ||
			!strings.Contains(p.Why(w.problem()), "fallback") {
			t.Errorf("%s: %s, %q, %q", backend, p.Tuning, p.Line, p.Why(w.problem()))
		}
		key, _ := w.target.DecisionKey()
		if _, look := w.store.Decision(key); look.Status != cache.Revalidate {
			t.Errorf("%s: not marked: %+v", backend, look)
		}
	}
}

// vllm#41871: an artifact that is whole, but computes wrong numbers here, is not run.
func TestStoredArtifactIsCheckedBeforeUse(t *testing.T) {
	w := newWorld(t)
	w.tuned("generic", nil)
	if _, err := w.serve(w.plan(w.store)); err != nil || w.starts != 1 {
		t.Fatalf("%v, %d starts", err, w.starts)
	}
	if _, err := w.serve(w.plan(w.store)); err != nil || w.starts != 1 {
		t.Errorf("a stored artifact was emitted again: %v, %d starts", err, w.starts)
	}
	c := w.plan(w.store).arm.Choices[0]
	bad, err := lazy{generic.New("g0")}.Emit(context.Background(), nil, c.Problem, c.Config)
	if err != nil {
		t.Fatal(err)
	}
	bad.Key.Backend = kernel.BackendID{Name: "generic", Digest: "g0"}
	if err := w.store.PutArtifact(cache.NewRequest(c, bad.Key.Backend, w.target.Host.Features), bad, "tuned"); err != nil {
		t.Fatal(err)
	}
	p := w.plan(w.store)
	if a, err := w.serve(p); err != nil || a.Kind != kernel.KindGo || w.starts != 2 || p.Tuning != TuningExact {
		t.Errorf("%v, %v, %d starts, %s", a, err, w.starts, p.Tuning)
	}
	if _, err := w.serve(w.plan(w.store)); err != nil || w.starts != 2 {
		t.Errorf("it was not healed: %v, %d starts", err, w.starts)
	}
}

// No backend that computes right is an error, not a wrong answer.
func TestNothingToFallBackTo(t *testing.T) {
	w := newWorld(t)
	w.suite.Backends = map[string]kernel.Backend{"lazy": lazy{generic.New("g0")}}
	if a, err := w.serve(w.plan(w.store)); err == nil {
		t.Errorf("got %v", a.Key)
	}
	w.suite.Backends = nil
	if _, err := w.plan(w.store).Artifact(context.Background(), kernel.Choice{Problem: w.problem0(), Backend: "x"}); err == nil {
		t.Error("served by no backend")
	}
}

func (w *world) problem0() kernel.Problem { return kernel.Problem{Op: kernel.OpScale} }

// --pin: no look-up, no write.
func TestPinned(t *testing.T) {
	w := newWorld(t)
	w.suite.Order = []string{"generic"}
	w.tuned("generic", nil)
	p := w.plan(nil)
	if p.Tuning != TuningNone || p.Watch() != nil {
		t.Errorf("%s", p.Tuning)
	}
	if _, err := w.serve(p); err != nil {
		t.Fatal(err)
	}
	slow := &SpeedWatch{rate: 1000, depth: 1024}
	feed(slow, 100, time.Second)
	if _, err := p.Judge(slow); err != nil {
		t.Error(err)
	}
	list, err := w.store.List()
	if err != nil || len(list) != 1 {
		t.Errorf("written: %v %v", list, err)
	}
	key, _ := w.target.DecisionKey()
	if _, look := w.store.Decision(key); look.Status != cache.Exact {
		t.Errorf("marked: %+v", look)
	}
}

// aiter#4634: how much of the model the host rules cover is said.
func TestCoverageIsReported(t *testing.T) {
	w := newWorld(t)
	w.suite.Order = []string{"generic"}
	prob := w.problem()
	r := cache.Rule{Key: w.target.RuleKey(prob.Format), Layout: prob.Layout, Knobs: kernel.DefaultKnobs(1)}
	if err := w.store.PutRule(r); err != nil {
		t.Fatal(err)
	}
	p := w.plan(w.store)
	if p.Tuning != TuningHost || !strings.Contains(p.Line, "kinds of weights), not tuned for this model") {
		t.Errorf("%s %q", p.Tuning, p.Line)
	}
	r.Imported = true
	if err := w.store.PutRule(r); err != nil {
		t.Fatal(err)
	}
	if p := w.plan(w.store); p.Tuning != TuningNone {
		t.Errorf("an imported rule runs unmeasured: %s", p.Line)
	}
}

func TestCancelledStartIsNoFallback(t *testing.T) {
	w := newWorld(t)
	w.tuned("removed", nil)
	p := w.plan(w.store)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.suite = func(ctx context.Context) (*kernel.Suite, error) { return nil, ctx.Err() }
	if _, err := p.Artifact(ctx, p.arm.Choices[0]); !errors.Is(err, context.Canceled) || p.Tuning != TuningExact {
		t.Errorf("%v %s", err, p.Tuning)
	}
}

// broken is a backend that fails to answer.
type broken struct{ kernel.Backend }

var errBroken = errors.New("it crashed")

func (broken) Layouts(context.Context, kernel.Features, kernel.Format) ([]kernel.Layout, error) {
	return nil, errBroken
}

func (broken) Space(context.Context, kernel.Features, kernel.Problem) (kernel.Space, error) {
	return kernel.Space{}, errBroken
}

// A third party's backend that fails, and is asked before the portable one, does not keep a model from
// running.
func TestFailingBackendIsSkipped(t *testing.T) {
	w := newWorld(t)
	prob := w.problem()
	said := ""
	w.suite.Backends["lazy"] = broken{}
	w.suite.Skipped = func(name string, err error) { said = name }
	p := w.plan(w.store)
	classes, err := w.target.Model.Classes(w.target.Numerics)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := p.Layout(t.Context(), classes[0]); err != nil || l != prob.Layout || said != "lazy" {
		t.Errorf("layout %v, %v; said of %q", l, err, said)
	}
	said = ""
	if a, err := w.serve(p); err != nil || a.Key.Backend.Name != "generic" || said != "lazy" {
		t.Errorf("%v, %v; said of %q", a, err, said)
	}
}
