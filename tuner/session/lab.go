package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// lab owns the loaded runner of the screening, and the small one that probes candidates.
type lab struct {
	load    runner.Load
	plan    *planner
	watch   Watch
	r       *runner.Runner
	probe   *runner.Runner
	loaded  runner.Loaded
	proved  map[string]bool   // artifacts that ran in a step
	bad     map[string]string // artifacts that did not, and why
	reloads int
}

// maxReloads ends a tune on a machine where runners keep dying.
const maxReloads = 8

func (l *lab) close() {
	for _, r := range []*runner.Runner{l.r, l.probe} {
		if r != nil {
			r.Close()
		}
	}
	l.r, l.probe = nil, nil
}

// runner returns the loaded runner, starting it if there is none.
func (l *lab) runner(ctx context.Context) (*runner.Runner, error) {
	if l.r != nil {
		return l.r, nil
	}
	if l.reloads++; l.reloads > maxReloads {
		return nil, fmt.Errorf("runners died %d times: giving up", l.reloads-1)
	}
	r, err := runner.Start(ctx, l.plan)
	if err != nil {
		return nil, err
	}
	if l.loaded, err = r.Load(ctx, l.load); err != nil {
		r.Close()
		return nil, fmt.Errorf("load the model in a runner: %w", err)
	}
	l.r = r
	return r, nil
}

// check runs an artifact alone in the probe process: oracle and guard pages. A crash is an answer.
func (l *lab) check(ctx context.Context, a *kernel.Artifact) error {
	if l.probe == nil {
		r, err := runner.Start(ctx, l.plan)
		if err != nil {
			return err
		}
		l.probe = r
	}
	err := l.probe.Probe(ctx, a)
	var crash *runner.Crash
	if errors.As(err, &crash) {
		l.probe.Close()
		l.probe = nil
	}
	return err
}

// arena is the in-situ stepper of one phase: tuning point M of some classes.
type arena struct {
	*lab
	test    bench.Test
	m       int
	warm    int
	repeat  int
	classes map[string]model.Class
	choice  func(class string, c kernel.Config) kernel.Choice
}

// put sets every layer's configuration and runs nothing.
func (a *arena) put(ctx context.Context, as []insitu.Assignment) error {
	st, arts, err := a.plans(ctx, as)
	if err != nil {
		return err
	}
	st.SetOnly = true
	r, err := a.runner(ctx)
	if err == nil {
		_, err = r.Step(ctx, st, arts, nil)
	}
	return err
}

// plans turns an assignment into what the runner is told.
func (a *arena) plans(ctx context.Context, as []insitu.Assignment) (runner.Step, map[string]*kernel.Artifact, error) {
	st := runner.Step{Test: a.test, Warm: a.warm, Repeat: a.repeat}
	arts := map[string]*kernel.Artifact{}
	for _, x := range as {
		p := runner.ClassPlan{Class: a.classes[x.Class], M: a.m}
		for _, cfg := range x.Config {
			art, err := a.plan.Artifact(ctx, a.choice(x.Class, cfg))
			if err != nil {
				return st, nil, err
			}
			id := artifactID(art)
			arts[id] = art
			p.Artifacts = append(p.Artifacts, id)
		}
		st.Plans = append(st.Plans, p)
	}
	return st, arts, nil
}

// Step runs one pass with every layer's candidate in place.
func (a *arena) Step(ctx context.Context, as []insitu.Assignment) ([]insitu.Timing, string, error) {
	st, arts, err := a.plans(ctx, as)
	if err != nil {
		return nil, "", err
	}
	r, err := a.runner(ctx)
	if err != nil {
		return nil, "", err
	}
	mark := a.watch.Mark()
	var rec wire.Receipt
	got, err := r.Step(ctx, st, arts, &rec)
	var crash *runner.Crash
	if errors.As(err, &crash) {
		return a.crashed(st, crash), "the runner died: " + crash.Reason, nil
	}
	if err != nil {
		return nil, "", err
	}
	if err := checkCalls(st, arts, rec); err != nil {
		return nil, "", err
	}
	for id := range arts {
		a.proved[id] = true
	}
	out := make([]insitu.Timing, len(as))
	for i := range as {
		out[i] = insitu.Timing{Class: as[i].Class, Seconds: got.Layers[i]}
	}
	return out, a.watch.Disturbed(mark), nil
}

// artifactID names an artifact within a conversation: problem and what runs.
func artifactID(a *kernel.Artifact) string { return kernel.KeyDigest(a.Key) }

// checkCalls compares the receipt with the plan: every artifact that a layer carried must have been
// called.
func checkCalls(st runner.Step, arts map[string]*kernel.Artifact, rec wire.Receipt) error {
	for _, p := range st.Plans {
		for _, id := range p.Artifacts {
			if d := arts[id].Digest(); rec.Calls[d] == 0 {
				return fmt.Errorf("%w: %s did not run %.12s", measure.ErrReceipt, p.Class, d)
			}
		}
	}
	return nil
}

// crashed quarantines what had never run before, and starts the next step on a new runner.
func (a *arena) crashed(st runner.Step, c *runner.Crash) []insitu.Timing {
	a.r.Close()
	a.r = nil
	var out []insitu.Timing
	for _, p := range st.Plans {
		t := insitu.Timing{Class: p.Class.String(), Seconds: make([]float64, len(p.Artifacts)), Failed: map[int]string{}}
		for j, id := range p.Artifacts {
			t.Seconds[j] = 1 // the step is void
			if !a.proved[id] {
				t.Failed[j] = c.Error()
				a.bad[id] = c.Error()
			}
		}
		out = append(out, t)
	}
	return out
}
