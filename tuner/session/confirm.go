package session

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

const (
	armDefault = "default"
	armTuned   = "tuned"
	maxPairs   = 12
	// reserve is kept for writing the results and ending processes.
	reserve = 1500 * time.Millisecond
)

// confirmation is what the fresh processes said.
type confirmation struct {
	judge   *measure.Judge
	decode  measure.Verdict
	prefill measure.Verdict
}

// confirm runs the default and the composed arm in pairs of fresh processes, in ABBA order, on new
// data.
func (t *tune) confirm(ctx context.Context) (confirmation, error) {
	var c confirmation
	t.tuned = t.lab.plan.with(t.finalists(), t.lab.plan.layouts)
	arms := []measure.Arm{
		{Name: armDefault, Evidence: t.evidence(ctx, nil, t.Knobs)},
		{Name: armTuned, Evidence: t.evidence(ctx, t.finalists(), t.knobs)},
	}
	t.arms = arms
	j, err := measure.New(arms, []measure.Metric{measure.DecodeRate, measure.PrefillRate}, measure.Options{Fresh: true})
	if err != nil {
		return c, err
	}
	c.judge = j
	planners := []*planner{t.lab.plan.with(nil, t.lab.plan.layouts), t.tuned}
	knobs := []kernel.Knobs{t.Knobs, t.knobs}
	longest, pairs := 0.0, maxPairs
	if t.short {
		pairs = checkPairs
	}
	for pair, order := range stat.ABBA(pairs) {
		if !t.changed() || t.left() < reserve+max(time.Duration(1.1*longest*1e9), t.planned(pair)) {
			break
		}
		t.Progress("confirm", fmt.Sprintf("pair %d of fresh processes", pair+1))
		d, err := t.duel(ctx, pair, order, planners, knobs)
		if err != nil {
			return c, err
		}
		for arm, v := range d.Visits {
			if v.Crash != nil {
				j.Fail(measure.Failure{Arm: arms[arm].Name, Block: pair, Signal: v.Crash.Reason, Stderr: v.Crash.Stderr})
				continue
			}
			t.judge(j, arms[arm], pair, v)
		}
		longest = max(longest, d.Seconds)
		if d.Disturbed != "" {
			j.Disturb(pair, d.Disturbed)
		}
		if pair >= 2 && t.settled(j) {
			break
		}
	}
	margin := measure.Margin
	c.decode = j.Verdict(measure.DecodeRate.Name, armTuned, t.res.Floor, margin)
	c.prefill = j.Verdict(measure.PrefillRate.Name, armTuned, t.res.Floor, margin)
	t.report(&c)
	return c, nil
}

// planned is what must fit before a pair is started: without three pairs there is no result, so the
// first is not started unless three fit.
func (t *tune) planned(pair int) time.Duration {
	return time.Duration(max(1, stat.MinPairs-pair)) * t.duelTakes() * 9 / 10
}

// settled reports whether both phases are decided either way.
func (t *tune) settled(j *measure.Judge) bool {
	for _, m := range []measure.Metric{measure.DecodeRate, measure.PrefillRate} {
		ci := stat.CI(j.Gains(m.Name, armTuned, armDefault), 0.95)
		lim := math.Log1p(measure.Margin)
		if !(ci.Lo > lim || ci.Hi < lim) || len(j.Gains(m.Name, armTuned, armDefault)) < 5 {
			return false
		}
	}
	return true
}

// changed reports whether the composed arm differs from the default at all.
func (t *tune) changed() bool { return len(t.best) > 0 || t.knobs != t.Knobs }

// finalists are the choices of the composed arm that differ from the default.
func (t *tune) finalists() []kernel.Choice {
	var out []kernel.Choice
	for id, s := range t.best {
		if id.m == 1 || id.m == 512 || s.Gain > smallGain {
			out = append(out, s.Choice)
		}
	}
	slices.SortFunc(out, func(a, b kernel.Choice) int { return strings.Compare(a.Problem.String(), b.Problem.String()) })
	return out
}

// evidence is what an arm runs, by problem: the artifact digests of every class at the points that
// the confirmation covers, and the knobs.
func (t *tune) evidence(ctx context.Context, over []kernel.Choice, k kernel.Knobs) map[string]string {
	p := t.lab.plan.with(over, t.lab.plan.layouts)
	out := map[string]string{"knobs": fmt.Sprintf("%+v", k)}
	for _, c := range t.classes {
		for _, m := range []int{1, 512} {
			if l, err := p.Layout(ctx, c); err == nil && t.covers(c, m) {
				prob := c.Problem(t.Target.Numerics.Weights, m, l)
				if ch, err := p.Choice(ctx, prob); err == nil {
					if a, err := p.Artifact(ctx, ch); err == nil {
						out[prob.String()] = a.Digest()
					}
				}
			}
		}
	}
	return out
}

// covers reports whether a class runs at a tuning point: the head runs for one row.
func (t *tune) covers(c model.Class, m int) bool { return c.Role != string(model.RoleHead) || m == 1 }

// report adds the verdicts of the whole phases.
func (t *tune) report(c *confirmation) {
	for _, x := range []struct {
		phase string
		m     measure.Metric
		v     *measure.Verdict
		on    bool
	}{{phaseDecode, measure.DecodeRate, &c.decode, t.Decode}, {phasePrefill, measure.PrefillRate, &c.prefill, t.Prefill}} {
		if !x.on {
			continue
		}
		switch {
		case t.skipped:
			x.v.Why = measure.WhyBudget
		case !t.changed():
			x.v.Why = "no candidate beat the default in situ"
		case x.v.Pairs < stat.MinPairs && x.v.Why != measure.WhyInert && x.v.Why != measure.WhyFailed:
			x.v.Why = measure.WhyBudget
			if r, d := len(c.judge.Rejections()), len(c.judge.Disturbed()); r+d > 0 {
				x.v.Why = fmt.Sprintf("%d samples refused and %d pairs disturbed: too few are left", r, d)
			}
		}
		out := Verdict{Phase: x.phase, Weights: string(t.Target.Numerics.Weights), Problem: "whole",
			Ratio: x.v.Ratio, Decision: string(x.v.Decision), Why: x.v.Why,
			Default: median(c.judge.Values(x.m.Name, armDefault)), Winner: median(c.judge.Values(x.m.Name, armTuned))}
		t.res.Verdicts = append(t.res.Verdicts, out)
	}
}

func median(xs []float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	m := stat.Median(xs)
	return &m
}
