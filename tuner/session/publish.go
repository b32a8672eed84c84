package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
)

// publish writes the arm that stands: winners of the phases that were confirmed, the default
// elsewhere. The decision is written last, it makes what was written before it one group.
func (t *tune) publish(ctx context.Context, c confirmation) error {
	key, err := t.Target.DecisionKey()
	if err != nil {
		return err
	}
	old, look := t.Store.Decision(key)
	if look.Status != cache.Exact {
		old = cache.Decision{}
	}
	arm := t.finalArm(c, old.Arm)
	d := cache.Decision{Key: key, Arm: arm}
	if t.noResult(d.Key, c) {
		slog.Warn("this tune came to no result: the stored winner is kept", "decode", c.decode.Why, "prefill", c.prefill.Why)
		return t.finish()
	}
	kept, of := c.judge.Kept()
	for _, x := range []struct {
		phase string
		m     measure.Metric
		v     measure.Verdict
		on    bool
	}{{phaseDecode, measure.DecodeRate, c.decode, t.Decode}, {phasePrefill, measure.PrefillRate, c.prefill, t.Prefill}} {
		if i := slices.IndexFunc(old.Evidence, func(e cache.Evidence) bool { return e.Phase == x.phase }); i >= 0 && !x.on {
			d.Evidence = append(d.Evidence, old.Evidence[i])
			continue
		}
		e := cache.Evidence{Phase: x.phase, Metric: x.m.Name, Ratio: finite(x.v.Ratio.Median), Lo: finite(x.v.Ratio.Lo), Hi: finite(x.v.Ratio.Hi),
			Pairs: x.v.Pairs, AANoise: finite(t.res.Floor.Noise), Kept: kept, Dropped: of - kept, Decision: string(x.v.Decision), Why: x.v.Why}
		if m := median(c.judge.Values(x.m.Name, armDefault)); m != nil {
			e.Default = *m
		}
		if m := median(c.judge.Values(x.m.Name, armTuned)); m != nil {
			e.Winner = *m
		}
		if x.phase == phaseDecode {
			e.Depth = tgDepth
		}
		d.Evidence = append(d.Evidence, e)
	}
	for _, ch := range arm.Choices {
		id, err := t.keep(ctx, ch)
		if err != nil {
			return err
		}
		d.Artifacts = append(d.Artifacts, id)
	}
	rules, err := t.rules(ctx, arm, c)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if err := t.Store.PutRule(r); err != nil {
			return err
		}
		t.res.Written++
	}
	if err := t.Store.PutDecision(d); err != nil {
		return err
	}
	t.res.Written++
	return t.finish()
}

// finish ends the journal: what it holds is done with.
func (t *tune) finish() error {
	if t.journal == nil {
		return nil
	}
	err := t.journal.Finish()
	t.journal = nil
	return err
}

func finite(x float64) float64 {
	if x != x || x > 1e300 || x < -1e300 {
		return 0
	}
	return x
}

// finalArm is every choice that was made while the arms ran, with the confirmed winners in place of
// the defaults.
func (t *tune) finalArm(c confirmation, old kernel.Arm) kernel.Arm {
	byProblem := map[kernel.Problem]kernel.Choice{}
	for _, p := range []*planner{t.lab.plan, t.tuned} {
		for _, ch := range p.choices() {
			if _, ok := byProblem[ch.Problem]; !ok {
				byProblem[ch.Problem] = ch
			}
		}
	}
	for _, ch := range old.Choices { // a phase that this tune left alone keeps its winners
		if _, ok := byProblem[ch.Problem]; ok && ch.Problem.Op == kernel.OpLinear && !t.on(ch.Problem.M) {
			byProblem[ch.Problem] = ch
		}
	}
	for _, ch := range t.finalists() {
		if c.won(ch.Problem.M) {
			byProblem[ch.Problem] = ch
		}
	}
	arm := kernel.Arm{Knobs: t.confirmedKnobs(c, old.Knobs)}
	for _, ch := range byProblem {
		arm.Choices = append(arm.Choices, ch)
	}
	slices.SortFunc(arm.Choices, func(a, b kernel.Choice) int {
		return strings.Compare(a.Problem.String(), b.Problem.String())
	})
	return arm
}

// on reports whether the phase of a tuning point is an objective of this tune.
func (t *tune) on(m int) bool { return m == 1 && t.Decode || m != 1 && t.Prefill }

// won reports whether the tuned arm won the phase of a tuning point.
func (c confirmation) won(m int) bool {
	if m == 1 {
		return c.decode.Decision == measure.Winner
	}
	return c.prefill.Decision == measure.Winner
}

// confirmedKnobs takes each phase's knobs from the arm that stands in that phase.
func (t *tune) confirmedKnobs(c confirmation, old kernel.Knobs) kernel.Knobs {
	k := t.Knobs
	decode, prefill := t.Knobs, t.Knobs
	if old.ThreadsDecode > 0 && !t.Decode {
		decode = old
	}
	if old.ThreadsPrefill > 0 && !t.Prefill {
		prefill = old
	}
	if c.won(1) {
		decode = t.knobs
	}
	if c.won(512) {
		prefill = t.knobs
	}
	k.ThreadsDecode = decode.ThreadsDecode
	k.ThreadsPrefill, k.PanelMinM, k.PrefillChunk = prefill.ThreadsPrefill, prefill.PanelMinM, prefill.PrefillChunk
	k.RepackRows = t.knobs.RepackRows // loading only: the confirmation does not cover it, its own race does
	return k
}

// keep stores the artifact of a choice and returns its digest in the cache.
func (t *tune) keep(ctx context.Context, c kernel.Choice) (string, error) {
	a, err := t.lab.plan.Artifact(ctx, c)
	if err != nil {
		return "", err
	}
	info, ok := t.Target.Backends[c.Backend]
	if !ok {
		return "", fmt.Errorf("backend %q is not known to the target", c.Backend)
	}
	req := cache.NewRequest(c, kernel.BackendID{Name: c.Backend, Digest: info.Digest}, t.Target.Host.Features)
	if err := t.Store.PutArtifact(req, a, "tuned"); err != nil {
		return "", err
	}
	t.res.Written++
	return kernel.KeyDigest(req), nil
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
		l, err := t.lab.plan.Layout(ctx, c)
		if err != nil {
			return nil, err
		}
		r := cache.Rule{Key: t.Target.RuleKey(f), Layout: l, Knobs: arm.Knobs}
		old, look := t.Store.Rule(r.Key)
		keep := look.Status == cache.Exact && old.Layout == l
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
