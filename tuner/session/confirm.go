package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

const (
	armDefault = "default"
	armTuned   = "tuned"
	maxPairs   = 12
	firstLook  = 5 // pairs after which a clear case may end the confirmation
	// reserve is kept for writing the results and ending processes.
	reserve = 1500 * time.Millisecond
)

// confirm runs the default and the composed arm in pairs of fresh processes, in ABBA order, on new
// data, in the phases in which they differ.
func (t *tune) confirm(ctx context.Context) (confirmation, error) {
	c, err := t.newConfirmation(ctx)
	if err != nil {
		return c, err
	}
	b := contest{decode: c.decode.live, prefill: c.prefill.live, pairs: maxPairs,
		planners: [2]*planner{t.lab.plan.with(nil, t.lab.plan.layouts), t.tuned}, knobs: [2]kernel.Knobs{t.Knobs, t.knobs}}
	if t.short {
		b.pairs = checkPairs
	}
	if err := t.plant(&c, &b); err != nil {
		return c, err
	}
	until, stop := t.within(ctx)
	defer stop()
	early, err := t.pairs(until, &c, b)
	if err != nil {
		return c, err
	}
	for _, g := range c.phases() {
		g.judge.SetConf(looks(b).Conf(!early))
		g.Verdict = g.judge.Verdict(g.metric.Name, armTuned, t.floorOf(g.phase), measure.Margin)
		if g.live && !g.connected() {
			g.Decision, g.Why = measure.NoWinner, measure.WhyInert
		}
	}
	t.vetoLayouts(&c)
	t.sabotaged(&c, b)
	t.report(&c)
	return c, c.sabotage.Err()
}

func (t *tune) newConfirmation(ctx context.Context) (c confirmation, err error) {
	t.tuned = t.lab.plan.with(t.finalists(), t.tunedLayouts())
	moved := len(t.layouts) > 0 // both phases read the weights: neither may lose
	if c.decode, err = t.newJudged(ctx, phaseDecode, measure.DecodeRate, t.Decode || moved); err == nil {
		c.prefill, err = t.newJudged(ctx, phasePrefill, measure.PrefillRate, t.Prefill || moved)
	}
	return c, err
}

// pairs runs pairs until every live phase is decided, or no other pair fits. It reports whether the
// values ended it before its time.
func (t *tune) pairs(ctx context.Context, c *confirmation, b contest) (early bool, err error) {
	longest := 0.0
	for pair, order := range stat.ABBA(b.pairs) {
		if !b.decode && !b.prefill || t.left() < reserve+max(time.Duration(1.1*longest*1e9), t.planned(b, pair)) {
			return false, nil
		}
		t.Progress("confirm", fmt.Sprintf("pair %d of fresh processes", pair+1))
		d, err := t.duel(ctx, pair, order, b)
		if errors.Is(err, errBudget) {
			return false, nil // what it began counts for nobody
		}
		if err != nil {
			return false, err
		}
		longest = max(longest, d.Seconds)
		for _, g := range c.phases() {
			t.hand(g, pair, d)
		}
		if d.carries() {
			c.carried++
		}
		if decided(c, looks(b)) && !t.doubts(c, b) {
			return true, nil
		}
	}
	return false, nil
}

// planned is what must fit before a pair is started: without three pairs there is no result, so the
// first is not started unless three fit.
func (t *tune) planned(b contest, pair int) time.Duration {
	return time.Duration(max(1, stat.MinPairs-pair)) * t.contestTakes(b) * 9 / 10
}

// looks are the looks at a confirmation that may end it early.
func looks(b contest) stat.Looks { return stat.Looks{Alpha: 0.05, First: firstLook, Last: b.pairs} }

// decided reports whether every live phase is decided either way.
func decided(c *confirmation, l stat.Looks) bool {
	for _, g := range c.phases() {
		if g.live && l.Early(g.judge.Gains(g.metric.Name, armTuned, armDefault), measure.Margin) == stat.GoOn {
			return false
		}
	}
	return true
}

// changed reports whether the composed arm differs from the default at all.
func (t *tune) changed() bool { return len(t.best)+len(t.layouts) > 0 || t.knobs != t.Knobs }

// finalists are the choices of the composed arm that differ from the default.
func (t *tune) finalists() []kernel.Choice {
	var out []kernel.Choice
	for id, s := range t.best {
		if s.stands(id.m) {
			out = append(out, s.Choice)
		}
	}
	slices.SortFunc(out, func(a, b kernel.Choice) int { return strings.Compare(a.Problem.String(), b.Problem.String()) })
	return out
}

// report adds the verdicts of the whole phases.
func (t *tune) report(c *confirmation) {
	void := c.sabotage.Err()
	for _, g := range c.phases() {
		if !t.asked[g.phase] {
			continue
		}
		why, aside := t.aside[g.phase]
		if !aside {
			why = t.why(g)
		}
		if void != nil {
			g.Decision, why = measure.NoWinner, strings.ReplaceAll(void.Error(), "\n", "; ")
		}
		g.Why = why
		kept, of := g.judge.Kept()
		stands := t.Knobs
		if g.Decision == measure.Winner {
			stands = t.knobs
		}
		t.res.Verdicts = append(t.res.Verdicts, Verdict{Phase: g.phase, Weights: string(t.Target.Numerics.Weights), Problem: "whole",
			Config: knobConfig(g.phase, stands), Ratio: g.Ratio, Decision: string(g.Decision), Why: g.Why, Kept: kept, Pairs: of,
			Default: median(g.judge.Values(g.metric.Name, armDefault)), Winner: median(g.judge.Values(g.metric.Name, armTuned))})
	}
}

// why is the reason of a verdict, in the words of the tune where the judge's are not enough.
func (t *tune) why(g *judged) string {
	switch {
	case t.skipped:
		return measure.WhyBudget
	case !t.changed():
		return "no candidate beat the default in situ"
	case g.Verdict.Pairs >= stat.MinPairs || g.Why == measure.WhyInert || g.Why == measure.WhyFailed:
		return g.Why
	}
	if r, d := len(g.judge.Rejections()), len(g.judge.Disturbed()); r+d > 0 {
		return fmt.Sprintf("%d samples refused and %d pairs disturbed: %s", r, d, tooFew)
	}
	return measure.WhyBudget
}

// tooFew ends the reason of a confirmation that was disturbed too often.
const tooFew = "too few are left"

func median(xs []float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	m := stat.Median(xs)
	return &m
}
