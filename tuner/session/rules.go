package session

import (
	"context"
	"slices"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// taught are the knobs of a rule: where a phase has no winner, what another model taught stays.
func taught(k, old kernel.Knobs, c confirmation) kernel.Knobs {
	if old == (kernel.Knobs{}) {
		return k
	}
	if !c.won(1) {
		k.ThreadsDecode = old.ThreadsDecode
	}
	if !c.won(512) {
		k.ThreadsPrefill, k.PanelMinM, k.PrefillChunk = old.ThreadsPrefill, old.PanelMinM, old.PrefillChunk
	}
	return k
}

// rules are the host rules that the arm teaches: for each format, the configurations of its largest
// class, which say most. Where this tune has no winner, what another model taught stays.
func (t *tune) rules(ctx context.Context, arm kernel.Arm, conf confirmation) ([]cache.Rule, error) {
	biggest := map[kernel.Format]model.Class{}
	var order []kernel.Format
	for _, c := range t.classes {
		b, ok := biggest[c.Format]
		if !ok {
			order = append(order, c.Format)
		}
		if !ok || c.N*c.K*c.Count > b.N*b.K*b.Count && c.Role != string(model.RoleHead) {
			biggest[c.Format] = c
		}
	}
	var out []cache.Rule
	for _, f := range order {
		c := biggest[f]
		l, err := t.finalLayout(ctx, conf, c)
		if err != nil {
			return nil, err
		}
		r := cache.Rule{Key: t.Target.RuleKey(f), Layout: l, Knobs: arm.Knobs}
		old, look := t.Store.Rule(r.Key)
		keep := look.Status == cache.Exact && old.Layout == l
		if t.unmeasured(old, c) {
			continue
		}
		if keep {
			r.Knobs = taught(arm.Knobs, old.Knobs, conf)
		}
		for _, m := range kernel.MPoints {
			if i := slices.IndexFunc(old.Choices, func(rc cache.RuleChoice) bool { return rc.M == m }); keep && i >= 0 && !conf.won(m) {
				r.Choices = append(r.Choices, old.Choices[i])
				continue
			}
			if ch, ok := arm.Find(c.Problem(t.Target.Numerics.Weights, m, l)); ok {
				r.Choices = append(r.Choices, cache.RuleChoice{M: m, Backend: ch.Backend, Config: ch.Config})
			}
		}
		out = append(out, r)
	}
	return out, nil
}
