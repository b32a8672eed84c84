package session

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
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
	phase, layouts := k.Decision.Evidence[i].Phase, map[model.Key]kernel.Layout{}
	for _, c := range t.classes {
		l, ok := layoutIn(k.Decision.Arm, c)
		if !ok {
			continue
		}
		for _, m := range kernel.MPoints {
			if !covers(c, m) {
				continue
			}
			if _, err := t.lab.plan.Choice(ctx, c.Problem(t.Target.Numerics.Weights, m, l)); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				slog.Warn("the stored winner of the other phase cannot be kept: its weights lie as no backend reads them now", "phase", phase, "why", err)
				return nil
			}
		}
		layouts[c.Key()] = l
	}
	maps.Copy(t.lab.plan.layouts, layouts)
	t.keeping = phase
	return nil
}

// keepAside does the same for a stored winner of a phase that was asked for and cannot be judged: the model
// is loaded by then, so its layouts are kept only if they are those that were loaded. Where they are not,
// the stored decision stays unless the search ends in its layouts (heldBack).
func (t *tune) keepAside() {
	k := t.known()
	if t.keeping != "" || k.Look.Status == cache.Miss || k.Decision.Imported {
		return
	}
	for _, e := range k.Decision.Evidence {
		if t.aside[e.Phase] != "" && e.Decision == string(measure.Winner) && t.asLoaded(k.Decision.Arm) {
			t.keeping = e.Phase
		}
	}
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
