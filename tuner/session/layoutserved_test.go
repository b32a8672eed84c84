package session

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/resolve"
	"github.com/tilewright/tilewright/tuner/runner"
)

// lopsided is a backend whose kernels of its default layout are the portable ones, slow, and native in
// the other layout.
type lopsided struct{ slow, fast kernel.Backend }

func (l lopsided) of(p kernel.Problem) kernel.Backend {
	if p.Op == kernel.OpLinear && p.Layout == narrow {
		return l.slow
	}
	return l.fast
}

func (l lopsided) Manifest(ctx context.Context) (kernel.Manifest, error) { return l.fast.Manifest(ctx) }
func (l lopsided) Layouts(ctx context.Context, h kernel.Features, f kernel.Format) ([]kernel.Layout, error) {
	return []kernel.Layout{narrow, broad}, nil
}
func (l lopsided) Space(ctx context.Context, h kernel.Features, p kernel.Problem) (kernel.Space, error) {
	return l.of(p).Space(ctx, h, p)
}
func (l lopsided) Emit(ctx context.Context, h kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	a, err := l.of(p).Emit(ctx, h, p, c)
	if err == nil {
		a.Key.Backend = kernel.BackendID{Name: "avx2", Digest: "a0"}
	}
	return a, err
}

// A layout that is faster wins in situ, is loaded by a fresh process, is published once the arm is
// confirmed, and is what the engine then loads, and explains.
func TestLayoutWinsAndIsServed(t *testing.T) {
	if testing.Short() {
		t.Skip("a real search against the clock")
	}
	if runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("needs AVX2")
	}
	var o Options
	var u *tune
	for _, window := range []time.Duration{10 * time.Second, time.Minute} { // more where others use the cores
		u = tinyTune(t, func(p *Options) {
			p.CPUs, p.Knobs = p.CPUs[:1], kernel.DefaultKnobs(1)
			p.Suite.Backends = map[string]kernel.Backend{"avx2": lopsided{generic.New("g0"), avx2.New("a0")}}
			p.Target.Backends = map[string]resolve.BackendInfo{"avx2": {Digest: "a0", Version: "1"}}
			o = *p
		})
		if _, err := u.lab.runner(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := u.screenLayouts(t.Context(), time.Now().Add(window)); err != nil {
			t.Fatal(err)
		}
		if len(u.layouts) > 0 {
			break
		}
	}
	if len(u.layouts) == 0 || len(u.lab.laid) != 0 {
		t.Fatalf("%v, %d left; %+v", u.layouts, len(u.lab.laid), u.res.Verdicts)
	}
	u.lab.close()
	tuned := u.lab.plan.with(u.finalists(), u.tunedLayouts())
	fresh, err := runner.Start(t.Context(), tuned)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if _, err := fresh.Load(t.Context(), u.lab.load); err != nil {
		t.Fatal(err)
	}
	conf, err := u.newConfirmation(t.Context())
	if err != nil || !conf.decode.live || !conf.prefill.live {
		t.Fatalf("another layout acts on both phases: %v", err)
	}
	u.tuned = tuned
	won := measure.Verdict{Decision: measure.Winner, Ratio: measure.Ratio{Median: 2, Lo: 1.9, Hi: 2.1}, Pairs: 3}
	conf.decode.Verdict, conf.prefill.Verdict = won, won
	if err := u.publish(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	p, err := resolve.New(o.Target, resolve.Options{Store: o.Store, Knobs: o.Knobs,
		Suite: func(context.Context) (*kernel.Suite, error) { return o.Suite, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if p.Tuning != resolve.TuningExact {
		t.Fatalf("%s: %s", p.Tuning, p.Line)
	}
	e, err := engine.Load(t.Context(), o.Target.Model, engine.Options{Numerics: o.Target.Numerics, Context: 256, Knobs: p.Knobs, CPUs: o.CPUs,
		Plan: p, Source: p, Host: o.Target.Host.Features})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x, err := e.Explain()
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, m := range x.Matrices {
		if m.Layout == broad {
			moved++
		}
		for _, k := range m.Kernels {
			if k.Problem.Layout != m.Layout {
				t.Errorf("%s of layer %d lies %s, its kernel wants %s", m.Role, m.Layer, m.Layout, k.Problem.Layout)
			}
			if why := p.Why(k.Problem); !strings.Contains(why, "tuned for this model") {
				t.Errorf("%s: %s", k.Problem, why)
			}
		}
	}
	if moved == 0 {
		t.Error("the engine loads the default layouts")
	}
	r, look := o.Store.Rule(o.Target.RuleKey(x.Matrices[0].Format))
	if look.Status != cache.Exact || r.Layout != broad {
		t.Errorf("host rule: %+v, %s", look, r.Layout)
	}
	// A stored arm in that layout is recalled as such when it wants a check.
	u = newTune(o)
	u.classes, _ = o.Target.Model.Classes(o.Target.Numerics)
	defer u.lab.close()
	key, _ := o.Target.DecisionKey()
	d, _ := o.Store.Decision(key)
	if !u.recall(t.Context(), d) || len(u.layouts) == 0 {
		t.Errorf("recalled %v, %v", u.best, u.layouts)
	}
}
