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
	old, hint := t.inherited(ctx, key, c)
	if t.unheard(c) {
		slog.Warn("this tune came to no result: nothing is written", "decode", c.decode.Why, "prefill", c.prefill.Why)
		return t.finish()
	}
	arm := t.finalArm(ctx, c, old.Arm)
	d := cache.Decision{Key: key, Arm: arm, Won: t.winners(ctx, arm)}
	if t.noResult(d.Key, c) {
		slog.Warn("this tune came to no result: the stored winner is kept", "decode", c.decode.Why, "prefill", c.prefill.Why)
		return t.finish()
	}
	for _, g := range c.phases() {
		if i := slices.IndexFunc(old.Evidence, func(e cache.Evidence) bool { return e.Phase == g.phase }); i >= 0 && t.keeps(g) && t.sameLayouts(old.Arm, arm) {
			d.Evidence = append(d.Evidence, old.Evidence[i])
			if hint != "" {
				d.Mark(g.phase + " was not checked: " + hint)
			}
			continue
		}
		d.Evidence = append(d.Evidence, t.proof(g))
	}
	for _, ch := range arm.Choices {
		id, err := t.keep(ctx, ch)
		if err != nil {
			return err
		}
		if id != "" {
			d.Artifacts = append(d.Artifacts, id)
		}
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

// inherited is what the store says of the phases that this tune leaves as they were. A hint stays a hint
// (why is not ""): of its winners those stay that today's backends make and that pass the probe, and
// they are marked for the tune that asks for them. What was imported is never taken over unmeasured.
func (t *tune) inherited(ctx context.Context, key cache.DecisionKey, c confirmation) (old cache.Decision, why string) {
	old, look := t.Store.Decision(key)
	switch {
	case look.Status == cache.Exact:
		return old, ""
	case look.Status == cache.Miss || old.Imported:
		return cache.Decision{}, ""
	}
	old.Evidence = slices.DeleteFunc(slices.Clone(old.Evidence), func(e cache.Evidence) bool {
		return !t.keeps(c.of(e.Phase)) || e.Decision != string(measure.Winner) || !t.stillRuns(ctx, old.Arm, e.Phase)
	})
	stays := func(phase string) bool {
		return slices.ContainsFunc(old.Evidence, func(e cache.Evidence) bool { return e.Phase == phase })
	}
	old.Arm.Choices = slices.DeleteFunc(slices.Clone(old.Arm.Choices), func(ch kernel.Choice) bool { return !stays(phaseOf(ch.Problem.M)) })
	if !stays(phaseDecode) {
		old.Arm.Knobs.ThreadsDecode = 0
	}
	if !stays(phasePrefill) {
		old.Arm.Knobs.ThreadsPrefill = 0
	}
	return old, look.Why
}

// stillRuns reports whether the choices of an arm in a phase can be made and pass the probe.
func (t *tune) stillRuns(ctx context.Context, arm kernel.Arm, phase string) bool {
	return !slices.ContainsFunc(arm.Choices, func(ch kernel.Choice) bool {
		return ch.Problem.Op == kernel.OpLinear && phaseOf(ch.Problem.M) == phase && t.vet(ctx, ch, ch.Config) != nil
	})
}

// unheard reports whether no phase was judged, for want of time or of quiet: that is not a default that
// was kept for a reason.
func (t *tune) unheard(c confirmation) bool {
	for _, g := range c.phases() {
		if _, aside := t.aside[g.phase]; t.asked[g.phase] && !aside && g.Why != measure.WhyBudget && !strings.HasSuffix(g.Why, tooFew) {
			return false
		}
	}
	return true
}

// keeps reports whether this tune leaves a phase as it was stored: it did not judge it.
func (t *tune) keeps(g *judged) bool { return !t.asked[g.phase] || !t.says(g) }

// proof is what the confirmation of a phase rests on.
func (t *tune) proof(g *judged) cache.Evidence {
	kept, of := g.judge.Kept()
	e := cache.Evidence{Phase: g.phase, Metric: g.metric.Name, Ratio: finite(g.Ratio.Median), Lo: finite(g.Ratio.Lo), Hi: finite(g.Ratio.Hi),
		Pairs: g.Verdict.Pairs, AANoise: finite(t.floorOf(g.phase).Noise), Kept: kept, Dropped: of - kept, Decision: string(g.Decision), Why: g.Why}
	if m := median(g.judge.Values(g.metric.Name, armDefault)); m != nil {
		e.Default = *m
	}
	if m := median(g.judge.Values(g.metric.Name, armTuned)); m != nil {
		e.Winner = *m
	}
	if g.phase == phaseDecode {
		e.Depth = tgDepth
	}
	if _, aside := t.aside[g.phase]; !t.asked[g.phase] && !aside {
		e.Why = "it was not asked for"
	}
	return e
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
func (t *tune) finalArm(ctx context.Context, c confirmation, old kernel.Arm) kernel.Arm {
	byProblem := map[kernel.Problem]kernel.Choice{}
	for _, p := range []*planner{t.lab.plan, t.tuned} {
		for _, ch := range p.choices() {
			if _, ok := byProblem[ch.Problem]; !ok {
				byProblem[ch.Problem] = ch
			}
		}
	}
	for _, ch := range old.Choices { // a phase that this tune left alone keeps its winners
		if _, ok := byProblem[ch.Problem]; ok && ch.Problem.Op == kernel.OpLinear && t.keeps(c.at(ch.Problem.M)) {
			byProblem[ch.Problem] = ch
		}
	}
	for _, ch := range t.finalists() {
		stands := func(class model.Class) bool { return holds(class, ch.Problem) && t.layoutStands(c, class) }
		if c.won(ch.Problem.M) || slices.ContainsFunc(t.classes, stands) {
			byProblem[ch.Problem] = ch
		}
	}
	arm := kernel.Arm{Knobs: t.confirmedKnobs(c, old.Knobs)}
	for _, ch := range byProblem {
		arm.Choices = append(arm.Choices, ch)
	}
	arm.Choices = t.laidOut(ctx, c, arm.Choices)
	slices.SortFunc(arm.Choices, func(a, b kernel.Choice) int {
		return strings.Compare(a.Problem.String(), b.Problem.String())
	})
	return arm
}

// winners are the problems of an arm that are not served as the default arm serves their class.
func (t *tune) winners(ctx context.Context, arm kernel.Arm) []kernel.Problem {
	var out []kernel.Problem
	for _, ch := range arm.Choices {
		stays := slices.ContainsFunc(t.classes, func(c model.Class) bool {
			l, err := t.lab.plan.Layout(ctx, c)
			return err == nil && holds(c, ch.Problem) && l == ch.Problem.Layout
		})
		def, err := t.lab.plan.Choice(ctx, ch.Problem)
		if ch.Problem.Op == kernel.OpLinear && (!stays || err != nil || def.Backend != ch.Backend || def.Config.String() != ch.Config.String()) {
			out = append(out, ch.Problem)
		}
	}
	return out
}

// at is the phase of a tuning point.
func (c *confirmation) at(m int) *judged { return c.of(phaseOf(m)) }

// won reports whether the tuned arm won the phase of a tuning point.
func (c *confirmation) won(m int) bool { return c.at(m).Decision == measure.Winner }

// confirmedKnobs takes each phase's knobs from the arm that stands in that phase.
func (t *tune) confirmedKnobs(c confirmation, old kernel.Knobs) kernel.Knobs {
	k := t.Knobs
	decode, prefill := t.Knobs, t.Knobs
	if old.ThreadsDecode > 0 && t.keeps(&c.decode) {
		decode = old
	}
	if old.ThreadsPrefill > 0 && t.keeps(&c.prefill) {
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

// keep stores the artifact of a choice and returns its digest in the cache, "" if its backend has died
// since: engines have it emitted then.
func (t *tune) keep(ctx context.Context, c kernel.Choice) (string, error) {
	a, err := t.lab.plan.Artifact(ctx, c)
	if backendDied(err) {
		slog.Warn("artifact not kept", "problem", c.Problem, "why", err)
		return "", nil
	}
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
