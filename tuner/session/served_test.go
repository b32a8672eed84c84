package session

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/resolve"
)

// onPortable makes the tiny model's tune one of the portable backend alone.
func onPortable(o *Options) {
	o.Suite = &kernel.Suite{Backends: map[string]kernel.Backend{"generic": generic.New("g0")}}
	o.Target.Backends = map[string]resolve.BackendInfo{"generic": {Digest: "g0", Version: "1"}}
	o.Target.Host.Features = nil
}

// judge runs the end of a tune on a made-up machine, after an engine has asked the default arm for all
// that it executes, as the runner of a tune does.
func (h *fakeHost) judge(t *testing.T, points ...int) (*tune, confirmation) {
	t.Helper()
	u := tinyTune(t, onPortable)
	h.take(t, u, 10*time.Minute, points...)
	load(t, u, u.Knobs, u.lab.plan)
	c, err := u.confirm(t.Context())
	if err == nil {
		err = u.publish(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u, c
}

// load loads the model with what a plan says.
func load(t *testing.T, u *tune, k kernel.Knobs, p interface {
	engine.Plan
	engine.ArtifactSource
}) *engine.Explanation {
	t.Helper()
	e, err := engine.Load(t.Context(), u.Target.Model, engine.Options{Numerics: u.Target.Numerics, Context: 64, Knobs: k,
		CPUs: u.CPUs, Plan: p, Source: p, Host: u.Suite.Host})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x, err := e.Explain()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// served starts an engine from what a tune wrote, and the plan that it started with.
func served(t *testing.T, u *tune) (*resolve.Plan, *engine.Explanation) {
	t.Helper()
	p, err := resolve.New(u.Target, resolve.Options{Store: u.Store, Knobs: u.Knobs,
		Suite: func(context.Context) (*kernel.Suite, error) { return u.Suite, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return p, load(t, u, p.Knobs, p)
}

// A winner is confirmed, written as a decision, found as exact by an engine that starts afterwards, and
// executed by it; of everything else it says that the default was kept. Whatever the machine does
// meanwhile: the clock and the rates are made up, the store and the engine are not.
func TestWinnerIsServed(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode] = 1.1
	u, c := h.judge(t, 1)
	if c.decode.Decision != measure.Winner {
		t.Fatalf("%+v", c.decode.Verdict)
	}
	win := u.variant(t, 1)
	p, x := served(t, u)
	if p.Tuning != resolve.TuningExact || !strings.HasPrefix(p.Line, "tuned for this model (decode 1.") || !strings.Contains(p.Line, "prefill default kept: ") {
		t.Errorf("%s: %s", p.Tuning, p.Line)
	}
	count := map[string]int{}
	for _, m := range x.Matrices {
		for _, k := range m.Kernels {
			why := p.Why(k.Problem)
			count[why]++
			if wins := k.Problem == win.Problem; wins != (why == "tuned for this model") || wins && k.Config.String() != win.Config.String() {
				t.Errorf("%s runs %s: %s", k.Problem, k.Config, why)
			}
		}
	}
	if count["tuned for this model"] == 0 || count["default kept: nothing beat it for this model"] == 0 || count["default kept: "+measure.WhyInert] == 0 {
		t.Errorf("%v", count)
	}
	for _, k := range x.Kernels {
		if why := p.Why(k.Problem); why != "default" {
			t.Errorf("%s: %s", k.Problem, why)
		}
	}
}

// Where nothing wins, the decision is as exact, and says that the default was confirmed.
func TestConfirmedDefaultIsServed(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode], h.gain[phasePrefill] = 0.9, 0.9
	u, _ := h.judge(t, 1, 512)
	p, x := served(t, u)
	if p.Tuning != resolve.TuningExact || !strings.HasPrefix(p.Line, "tuned for this model, no winner: the default is kept (decode default kept: ") {
		t.Errorf("%s: %s", p.Tuning, p.Line)
	}
	for _, m := range x.Matrices {
		for _, k := range m.Kernels {
			if why := p.Why(k.Problem); !strings.HasPrefix(why, "default kept: ") {
				t.Errorf("%s: %s", k.Problem, why)
			}
		}
	}
}
