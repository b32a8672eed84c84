package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cache"
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
	if phase := t.heldBack(old, arm, c); phase != "" {
		t.holdBack(phase)
		return t.finish()
	}
	for _, g := range c.phases() {
		i := slices.IndexFunc(old.Evidence, func(e cache.Evidence) bool { return e.Phase == g.phase })
		same := t.sameLayouts(old.Arm, arm)
		if i >= 0 && t.keeps(g) && !same && old.Evidence[i].Decision == string(measure.Winner) {
			t.drops(g.phase, "its weights lay otherwise than those of this tune")
		}
		if i >= 0 && t.keeps(g) && same {
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
	if t.AllowBusy && (c.decode.Decision == measure.Winner || c.prefill.Decision == measure.Winner) {
		d.Mark("a winner of a machine that others may have used (--allow-busy)")
	}
	if err := t.Store.PutDecision(d); err != nil {
		return err
	}
	t.res.Written++
	return t.finish()
}

// unheard reports whether no phase was judged, for want of time or of quiet: that is not a default that
// was kept for a reason.
func (t *tune) unheard(c confirmation) bool {
	for _, g := range c.phases() {
		if t.asked[g.phase] && !t.unjudgedFor(g) {
			return false
		}
	}
	return true
}

// unjudgedFor reports whether it was for want of time or of quiet that a phase was not judged.
func (t *tune) unjudgedFor(g *judged) bool {
	_, aside := t.aside[g.phase]
	noisy := t.floorOf(g.phase).Level == measure.Refused && g.Decision != measure.Winner && g.Why != measure.WhyInert
	return aside || noisy || g.Why == measure.WhyBudget || strings.HasSuffix(g.Why, tooFew)
}

// holdBack says of this tune's winners that they are not written, since the stored winner of another phase
// would be lost with its layouts.
func (t *tune) holdBack(phase string) {
	slog.Warn("nothing is written: the stored winner of a phase that was not judged reads the weights otherwise; tune on a quieter machine, with more time, or for the other phase alone",
		"phase", phase)
	for i, v := range t.res.Verdicts {
		if v.Problem == "whole" && v.Decision == string(measure.Winner) {
			t.res.Verdicts[i].Why += "; not stored: the stored winner of " + phase + ", which was not judged, reads the weights otherwise"
		}
	}
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
	if why := t.dropped[g.phase]; why != "" {
		e.Why += "; " + why
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
