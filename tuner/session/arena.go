package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// arena is the in-situ stepper of one phase: tuning point M of some classes, each in the layers that
// its Class lists.
type arena struct {
	*lab
	test     bench.Test
	m        int
	warm     int
	repeat   int
	classes  map[string]model.Class
	defaults map[string]kernel.Choice // by class: the control, and what stands in for what failed
	patience time.Duration            // with one step: longer is a hang
	end      time.Time                // of the phase
}

// choice is a configuration of a class.
func (a *arena) choice(class string, c kernel.Config) kernel.Choice {
	d := a.defaults[class]
	d.Config = c
	return d
}

// hand is an assignment as the runner is told it. want names what each layer was to carry, by plan;
// the plans hold the default in place of what may not run.
type hand struct {
	runner.Step
	names []string
	want  [][]string
	arts  map[string]*kernel.Artifact
}

// errNoDefault is wrapped when what stands in for failed candidates failed itself.
var errNoDefault = errors.New("the default cannot run")

// deal turns an assignment into a hand.
func (a *arena) deal(ctx context.Context, as []insitu.Assignment) (*hand, error) {
	h := &hand{Step: runner.Step{Test: a.test, Warm: a.warm, Repeat: a.repeat}, arts: map[string]*kernel.Artifact{}}
	for _, x := range as {
		def, err := a.plan.Artifact(ctx, a.defaults[x.Class])
		if err != nil {
			return nil, err
		}
		stand := artifactID(def)
		if f, bad := a.bad[stand]; bad {
			return nil, fmt.Errorf("%w: %s: %s", errNoDefault, x.Class, f.why)
		}
		h.arts[stand] = def
		p := runner.ClassPlan{Class: a.classes[x.Class], M: a.m}
		var want []string
		for _, cfg := range x.Config {
			art, err := a.plan.Artifact(ctx, a.choice(x.Class, cfg))
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			id := kernel.KeyDigest(a.choice(x.Class, cfg)) // of what cannot be emitted
			if err == nil {
				id = artifactID(art)
			} else {
				a.quarantine(id, classRefused, err)
			}
			want = append(want, id)
			if _, bad := a.bad[id]; bad {
				id = stand
			} else {
				h.arts[id] = art
			}
			p.Artifacts = append(p.Artifacts, id)
		}
		h.names, h.want, h.Plans = append(h.names, x.Class), append(h.want, want), append(h.Plans, p)
	}
	return h, nil
}

// restore puts the default back in every layer, so that what follows starts from it.
func (a *arena) restore(ctx context.Context) error {
	var as []insitu.Assignment
	for name, c := range a.classes {
		as = append(as, a.uniform(name, len(runner.LayersOf(c)), a.defaults[name].Config))
	}
	return a.put(ctx, as)
}

// uniform gives all layers of a class one configuration.
func (a *arena) uniform(class string, layers int, c kernel.Config) insitu.Assignment {
	x := insitu.Assignment{Class: class}
	for range layers {
		x.Config = append(x.Config, c)
	}
	return x
}

// put sets every layer's configuration and runs nothing.
func (a *arena) put(ctx context.Context, as []insitu.Assignment) error {
	h, err := a.deal(ctx, as)
	if err != nil {
		return err
	}
	h.SetOnly = true
	r, err := a.runner(ctx)
	if err == nil {
		_, err = r.Step(ctx, h.Step, h.arts, nil)
	}
	return err
}

// Step runs one pass with every layer's candidate in place. A candidate that crashes, hangs, is
// refused or does not run is data: it is quarantined, the step counts for nobody, and the next one
// goes on without it.
func (a *arena) Step(ctx context.Context, as []insitu.Assignment) ([]insitu.Timing, string, error) {
	h, err := a.deal(ctx, as)
	if err != nil {
		return nil, "", err
	}
	if _, err := a.runner(ctx); err != nil {
		return nil, "", err
	}
	mark := a.watch.Mark()
	got, err := a.run(ctx, h)
	disturbed := ""
	switch {
	case ctx.Err() != nil: // overtaken: it is no block
		return nil, "", ctx.Err()
	case err == nil:
		disturbed = a.watch.Kept(mark, got.Wait)
	default:
		a.watch.Failed(err)
		disturbed = err.Error()
		if err := a.blame(ctx, h, err); err != nil {
			return nil, "", err
		}
	}
	return a.timings(h, got), disturbed, nil
}

// timings gives each class its layers' seconds, and says which configurations failed.
func (a *arena) timings(h *hand, got runner.StepTimes) []insitu.Timing {
	out := make([]insitu.Timing, len(h.Plans))
	for i, want := range h.want {
		t := insitu.Timing{Class: h.names[i], Seconds: make([]float64, len(want)), Failed: map[int]string{}}
		for j, id := range want {
			if t.Seconds[j] = 1; got.Layers != nil { // else the step is void
				t.Seconds[j] = got.Layers[i][j]
			}
			if f, bad := a.bad[id]; bad {
				t.Failed[j] = f.String()
			}
		}
		out[i] = t
	}
	return out
}

// errInert is wrapped when a step's receipt does not show what the step was to run.
var errInert = errors.New("an artifact did not run")

// run executes a hand. On success everything that it carried is proved.
func (a *arena) run(ctx context.Context, h *hand) (runner.StepTimes, error) {
	none := runner.StepTimes{}
	r, err := a.runner(ctx)
	if err != nil {
		return none, err
	}
	limit, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	var rec wire.Receipt
	got, err := r.Step(limit, h.Step, h.arts, &rec)
	if err != nil {
		if isDead(err) {
			a.drop()
		}
		return none, err
	}
	for id, why := range got.Refused {
		a.quarantine(id, classRefused, errors.New(why))
	}
	if len(got.Refused) > 0 {
		return none, fmt.Errorf("%w: %d refused by the engine", errInert, len(got.Refused))
	}
	if missing := h.missing(rec); len(missing) > 0 {
		for _, id := range missing {
			a.quarantine(id, classReceipt, fmt.Errorf("%w: the receipt does not show %.12s", errInert, h.arts[id].Digest()))
		}
		return none, fmt.Errorf("%w: %d of those that the step carried", errInert, len(missing))
	}
	for _, p := range h.Plans {
		for _, id := range p.Artifacts {
			a.proved[id] = true
		}
	}
	return got, nil
}

// missing lists what layers carried and the receipt does not show.
func (h *hand) missing(rec wire.Receipt) []string {
	var out []string
	for _, p := range h.Plans {
		for _, id := range p.Artifacts {
			if rec.Calls[h.arts[id].Digest()] == 0 {
				out = append(out, id)
			}
		}
	}
	return out
}

// artifactID names an artifact within a conversation: problem and what runs.
func artifactID(a *kernel.Artifact) string { return kernel.KeyDigest(a.Key) }

// blame finds out which candidate ended a step and quarantines it. Only what never ran before is
// suspected; of several suspects each runs alone once, so that the innocent stay in the race.
func (a *arena) blame(ctx context.Context, h *hand, cause error) error {
	if errors.Is(cause, errInert) || errors.Is(cause, runner.ErrImpostor) {
		return nil // who, is known
	}
	type place struct{ plan, layer int }
	at := map[string]place{}
	var suspects []string
	for i, p := range h.Plans {
		for j, id := range p.Artifacts {
			if _, seen := at[id]; !seen && !a.proved[id] {
				at[id] = place{i, j}
				suspects = append(suspects, id)
			}
		}
	}
	switch {
	case len(suspects) == 0 && !isDead(cause):
		return cause
	case len(suspects) == 1:
		a.quarantine(suspects[0], classOf(cause), cause)
		return nil
	}
	for _, id := range suspects {
		if !a.now().Before(a.end) {
			if h.isDefault(id, a.defaults) {
				continue // without it nothing can run; it will be tried again
			}
			a.quarantine(id, classOf(cause), fmt.Errorf("not tried alone, for want of time, after: %w", cause))
			continue
		}
		alone, err := a.alone(ctx, h, at[id].plan, at[id].layer, id)
		if err != nil {
			return err
		}
		if _, err := a.run(ctx, alone); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			a.quarantine(id, classOf(err), err)
			return nil
		}
	}
	return nil
}

// isDefault reports whether an artifact is what stands in for failed candidates.
func (h *hand) isDefault(id string, defaults map[string]kernel.Choice) bool {
	for _, c := range defaults {
		if a := h.arts[id]; a.Key.Problem == c.Problem && a.Key.Config.String() == c.Config.String() {
			return true
		}
	}
	return false
}

// alone is a hand with one artifact in its place and defaults elsewhere.
func (a *arena) alone(ctx context.Context, h *hand, plan, layer int, id string) (*hand, error) {
	var as []insitu.Assignment
	for i, name := range h.names {
		as = append(as, a.uniform(name, len(h.Plans[i].Artifacts), a.defaults[name].Config))
	}
	one, err := a.deal(ctx, as)
	if err != nil {
		return nil, err
	}
	one.Warm, one.Repeat = 0, 1
	one.arts[id] = h.arts[id]
	one.Plans[plan].Artifacts[layer] = id
	return one, nil
}
