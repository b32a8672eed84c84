package session

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

// knowledge is what the store knew when a tune began. It is journalled first: what a search proposes
// depends on it, and a resumed tune must propose what it proposed before, whatever other tunes have stored
// since.
type knowledge struct {
	Decision cache.Decision       `json:"decision"`
	Look     cache.Lookup         `json:"look"`
	Rules    map[string]knownRule `json:"rules"` // by format
}

type knownRule struct {
	Rule cache.Rule   `json:"rule"`
	Look cache.Lookup `json:"look"`
}

// known is what the store knew at the beginning.
func (t *tune) known() *knowledge {
	if t.knows != nil {
		return t.knows
	}
	k := &knowledge{Look: cache.Lookup{Status: cache.Miss}, Rules: map[string]knownRule{}}
	if t.Store != nil && !t.done("store", "", k) {
		if key, err := t.Target.DecisionKey(); err == nil {
			k.Decision, k.Look = t.Store.Decision(key)
		}
		for _, c := range t.classes {
			r, look := t.Store.Rule(t.Target.RuleKey(c.Format))
			k.Rules[c.Format.String()] = knownRule{r, look}
		}
		t.add("store", "", k)
	}
	t.knows = k
	return k
}

// rule is what was known of a format.
func (k *knowledge) rule(f kernel.Format) (cache.Rule, cache.Lookup) {
	r, ok := k.Rules[f.String()]
	if !ok {
		return cache.Rule{}, cache.Lookup{Status: cache.Miss}
	}
	return r.Rule, r.Look
}

// keepLayouts makes the layouts of a stored decision those of this tune, default arm included, where it
// holds a winner of a phase that this tune leaves alone: both phases read the same bytes, so that winner
// would be lost with its layouts. They are not searched then.
func (t *tune) keepLayouts(ctx context.Context) error {
	k := t.known()
	i := slices.IndexFunc(k.Decision.Evidence, func(e cache.Evidence) bool { return !t.asked[e.Phase] && e.Decision == string(measure.Winner) })
	if k.Look.Status == cache.Miss || k.Decision.Imported || i < 0 {
		return nil
	}
	_, err := t.adopt(ctx, k.Decision.Evidence[i].Phase)
	return err
}

// adopt makes the layouts of the stored winner of a phase those of this tune, before the model is loaded,
// if the backends read all of them.
func (t *tune) adopt(ctx context.Context, phase string) (bool, error) {
	layouts := map[model.Key]kernel.Layout{}
	for _, c := range t.classes {
		l, ok := layoutIn(t.known().Decision.Arm, c)
		if !ok {
			continue
		}
		for _, m := range kernel.MPoints {
			if !covers(c, m) {
				continue
			}
			if _, err := t.lab.plan.Choice(ctx, c.Problem(t.Target.Numerics.Weights, m, l)); ctx.Err() != nil {
				return false, ctx.Err()
			} else if err != nil {
				slog.Warn("the stored winner of the other phase cannot be kept: its weights lie as no backend reads them now", "phase", phase, "why", err)
				return false, nil
			}
		}
		layouts[c.Key()] = l
	}
	maps.Copy(t.lab.plan.layouts, layouts)
	t.keeping = phase
	return true, nil
}

// keepAside does the same for a stored winner of a phase that was asked for and cannot be judged. The model
// is loaded by then: where its layouts are not those that were loaded it is loaded again, so that what the
// other phase wins is measured, and can be stored, beside that winner. Where there is no time for that, the
// stored decision stays unless the search ends in its layouts (heldBack). What was done is journalled: a
// resumed search must ask for what it asked before.
func (t *tune) keepAside(ctx context.Context) error {
	if t.keeping != "" {
		return nil
	}
	phase := t.toKeep()
	if !t.done("keep", "", &phase) {
		t.add("keep", "", phase)
	}
	if phase == "" || t.asLoaded(t.known().Decision.Arm) {
		t.keeping = phase
		return nil
	}
	if ok, err := t.adopt(ctx, phase); !ok {
		return err
	}
	t.Progress("load again", "in the layouts of the stored winner of "+phase+", which cannot be judged")
	t.lab.drop()
	_, err := t.lab.runner(ctx)
	return err
}

// toKeep is the phase of a stored winner that was asked for and cannot be judged, "" if there is none, or
// none that there is time to load the model again for.
func (t *tune) toKeep() (phase string) {
	k := t.known()
	if k.Look.Status == cache.Miss || k.Decision.Imported {
		return ""
	}
	again := time.Duration(1.5 * t.lab.loaded.Seconds * 1e9)
	fits := t.asLoaded(k.Decision.Arm) || t.left() > again+stat.MinPairs*t.duelTakes()+reserve
	for _, e := range k.Decision.Evidence {
		if fits && t.aside[e.Phase] != "" && e.Decision == string(measure.Winner) {
			phase = e.Phase
		}
	}
	return phase
}

// asLoaded reports whether an arm reads the weights as the default arm of this tune holds them.
func (t *tune) asLoaded(a kernel.Arm) bool {
	return !slices.ContainsFunc(t.classes, func(c model.Class) bool {
		l, ok := layoutIn(a, c)
		now, kept := t.lab.plan.layouts[c.Key()]
		return ok && (!kept || l != now)
	})
}

// heldBack is the phase of a stored winner that would be lost with its layouts, "" if there is none: it was
// asked for, but there was no quiet or no time to judge it, and the arm that this tune would write in its
// place reads the weights otherwise.
func (t *tune) heldBack(old cache.Decision, arm kernel.Arm, c confirmation) string {
	for _, e := range old.Evidence {
		if g := c.of(e.Phase); e.Decision == string(measure.Winner) && t.asked[e.Phase] && t.keeps(g) && t.unjudgedFor(g) && !t.sameLayouts(old.Arm, arm) {
			return e.Phase
		}
	}
	return ""
}

// drops notes that a stored winner of a phase is not carried over, and why: it is said in the log and in
// what takes its place.
func (t *tune) drops(phase, why string) {
	if t.dropped[phase] == "" {
		t.dropped[phase] = fmt.Sprintf("the winner stored before is dropped: %s", why)
		slog.Warn("stored winner dropped", "phase", phase, "why", why)
	}
}
