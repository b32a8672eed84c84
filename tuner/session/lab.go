package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/runner"
)

// lab owns the loaded runner of the screening, and the small one that probes candidates.
type lab struct {
	load    runner.Load
	plan    *planner
	watch   *tallied
	now     func() time.Time
	start   func(context.Context, *planner) (process, error)
	r       process
	probe   process
	loaded  runner.Loaded
	proved  map[string]bool        // artifacts that ran in a step
	bad     map[string]fault       // artifacts that did not
	laid    map[slot]kernel.Layout // what was repacked: a new runner must look the same
	reloads int
}

// slot is a matrix of the model: a class in a layer, -1 for the head.
type slot struct {
	class model.Key
	layer int
}

// fault is why an artifact may not run any more.
type fault struct{ class, why string }

func (f fault) String() string { return f.class + ": " + f.why }

// Classes of faults.
const (
	classCrash   = "crash" // a hang included
	classRefused = "refused"
	classReceipt = "receipt" // it was to run and did not
)

func newLab(p *planner, w *tallied, load runner.Load) *lab {
	return &lab{load: load, plan: p, watch: w, now: time.Now, start: startRunner, proved: map[string]bool{}, bad: map[string]fault{}, laid: map[slot]kernel.Layout{}}
}

// quarantine keeps an artifact from running again; the first reason stands.
func (l *lab) quarantine(id, class string, why error) {
	if _, ok := l.bad[id]; !ok {
		l.bad[id] = fault{class, why.Error()}
	}
}

// isDead reports whether an error ended the runner that it came from.
func isDead(err error) bool {
	var crash *runner.Crash
	return errors.As(err, &crash) || errors.Is(err, runner.ErrImpostor)
}

func classOf(err error) string {
	switch {
	case isDead(err), backendDied(err):
		return classCrash
	case errors.Is(err, errInert):
		return classReceipt
	}
	return classRefused
}

// drop ends the loaded runner; the next step gets another one.
func (l *lab) drop() {
	if l.r != nil {
		l.r.Close()
	}
	l.r = nil
}

// maxReloads ends a tune on a machine where runners keep dying.
const maxReloads = 8

func (l *lab) close() {
	l.drop()
	if l.probe != nil {
		l.probe.Close()
	}
	l.probe = nil
}

// runner returns the loaded runner, starting it if there is none.
func (l *lab) runner(ctx context.Context) (process, error) {
	if l.r != nil {
		return l.r, nil
	}
	if l.reloads++; l.reloads > maxReloads {
		return nil, fmt.Errorf("runners died %d times: giving up", l.reloads-1)
	}
	r, err := l.start(ctx, l.plan)
	if err != nil {
		return nil, err
	}
	if l.loaded, err = r.Load(ctx, l.load); err != nil {
		r.Close()
		return nil, fmt.Errorf("load the model in a runner: %w", err)
	}
	l.r = r
	for s, to := range l.laid {
		if err := r.Lay(ctx, runner.Lay{Class: s.of(), Layout: to}); err != nil {
			return nil, fmt.Errorf("repack in a new runner: %w", err)
		}
	}
	return r, nil
}

func (s slot) of() model.Class {
	c := model.Class{Role: s.class.Role, N: s.class.N, K: s.class.K, Format: s.class.Format}
	if s.layer >= 0 {
		c.Layers = []int{s.layer}
	}
	return c
}

// lay repacks the matrices of a class in the layers that it lists.
func (l *lab) lay(ctx context.Context, c model.Class, to kernel.Layout) error {
	r, err := l.runner(ctx)
	if err != nil {
		return err
	}
	if err := r.Lay(ctx, runner.Lay{Class: c, Layout: to}); err != nil {
		return err
	}
	for _, layer := range runner.LayersOf(c) {
		l.laid[slot{c.Key(), layer}] = to
	}
	return nil
}

// unlay brings everything back into the layouts of the plan.
func (l *lab) unlay(ctx context.Context) error {
	for s := range l.laid {
		to, err := l.plan.Layout(ctx, s.of())
		if err != nil {
			return err
		}
		if l.r != nil {
			if err := l.r.Lay(ctx, runner.Lay{Class: s.of(), Layout: to}); err != nil {
				return err
			}
		}
		delete(l.laid, s)
	}
	return nil
}

// errNoProbe is wrapped when candidates cannot be probed at all: no fault of theirs.
var errNoProbe = errors.New("the probe process does not start")

// check runs an artifact alone in the probe process: oracle and guard pages. A crash is an answer.
func (l *lab) check(ctx context.Context, a *kernel.Artifact) error {
	if l.probe == nil {
		r, err := l.start(ctx, l.plan)
		if err != nil {
			return fmt.Errorf("%w: %w", errNoProbe, err)
		}
		l.probe = r
	}
	err := l.probe.Probe(ctx, a)
	if isDead(err) {
		l.probe.Close()
		l.probe = nil
	}
	return err
}
