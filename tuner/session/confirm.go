package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
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

// visit is one fresh process: both phases of one arm.
type visit struct {
	PP      float64      `json:"pp"`
	TG      float64      `json:"tg"`
	PPRec   wire.Receipt `json:"pp_rec"`
	TGRec   wire.Receipt `json:"tg_rec"`
	PPWant  wire.Receipt `json:"pp_want"` // the process that was started and the nonce that it was sent
	TGWant  wire.Receipt `json:"tg_want"`
	Seconds float64      `json:"seconds"`
}

// confirm runs the default and the composed arm in fresh processes, in ABBA order, on new data.
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
	longest := 0.0
	for pair, order := range stat.ABBA(maxPairs) {
		if !t.changed() || pair > 0 && t.left() < reserve+time.Duration(2.1*longest*1e9) {
			break
		}
		mark := t.Watch.Mark()
		for _, arm := range order {
			t.Progress("confirm", fmt.Sprintf("pair %d, %s", pair+1, arms[arm].Name))
			v, err := t.visit(ctx, pair, arms[arm].Name, planners[arm], knobs[arm])
			var crash *runner.Crash
			if errors.As(err, &crash) {
				j.Fail(measure.Failure{Arm: arms[arm].Name, Block: pair, Signal: crash.Reason, Stderr: crash.Stderr})
				continue
			}
			if err != nil {
				return c, err
			}
			longest = max(longest, v.Seconds)
			t.judge(j, arms[arm], pair, v)
		}
		if why := t.Watch.Disturbed(mark); why != "" {
			j.Disturb(pair, why)
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

// judge hands a visit's samples to the judge, with what their receipts must show: the process, the
// nonce, and the linear kernels of the arm, no other's.
func (t *tune) judge(j *measure.Judge, arm measure.Arm, pair int, v visit) {
	for _, s := range []struct {
		m         measure.Metric
		val       float64
		work      int64
		rec, want wire.Receipt
		points    func(m int) bool
	}{{measure.PrefillRate, v.PP, 512, v.PPRec, v.PPWant, func(m int) bool { return m == 512 }},
		{measure.DecodeRate, v.TG, confirmGen, v.TGRec, v.TGWant, func(m int) bool { return m == 1 }}} {
		rec := measure.Receipt{Nonce: s.rec.Nonce, PID: s.rec.PID, Start: int64(s.rec.Start), Exe: s.rec.Exe,
			Calls: t.linearCalls(s.rec.Calls, s.points), Bytes: s.rec.Bytes}
		want := measure.Expect{Nonce: s.want.Nonce, PID: s.want.PID, Start: int64(s.want.Start), Exe: s.want.Exe}
		for id := range t.best {
			if d := arm.Evidence[t.best[id].Choice.Problem.String()]; s.points(id.m) && d != "" && !slices.Contains(want.Artifacts, d) {
				want.Artifacts = append(want.Artifacts, d)
			}
		}
		if err := j.Add(measure.Sample{Arm: arm.Name, Block: pair, Metric: s.m.Name, Value: s.val, Work: s.work, Receipt: rec}, want); err != nil {
			slog.Warn("sample refused", "why", err)
		}
	}
}

// linearCalls keeps of a receipt the calls of kernels that tell the arms apart: those of either arm
// for the problems that have a finalist.
func (t *tune) linearCalls(calls map[string]int64, points func(m int) bool) map[string]int64 {
	out := map[string]int64{}
	for _, arm := range t.arms {
		for id := range t.best {
			if d := arm.Evidence[t.best[id].Choice.Problem.String()]; points(id.m) && calls[d] > 0 {
				out[d] = calls[d]
			}
		}
	}
	return out
}

// confirmGen is the number of decode steps of a visit.
const confirmGen = 128

// visit loads the model in a fresh process and runs pp512, then tg128 at the context that it left.
func (t *tune) visit(ctx context.Context, pair int, arm string, p *planner, k kernel.Knobs) (visit, error) {
	var v visit
	key := fmt.Sprintf("%s %d", arm, pair)
	if t.done("visit", key, &v) {
		return v, nil
	}
	start := time.Now()
	r, err := runner.Start(ctx, p)
	if err != nil {
		return v, err
	}
	defer r.Close()
	load := t.lab.load
	load.Knobs = k
	if _, err := r.Load(ctx, load); err != nil {
		return v, err
	}
	if _, err := r.Bench(ctx, runner.Bench{Test: bench.Test{Prompt: 64}, Reps: 1}, nil); err != nil {
		return v, err
	}
	pp, err := r.Bench(ctx, runner.Bench{Test: bench.PP512, Reps: 1}, &v.PPRec)
	if err != nil {
		return v, err
	}
	v.PPWant = r.Expected()
	tg, err := r.Bench(ctx, runner.Bench{Test: bench.Test{Gen: confirmGen, Depth: 512}, Reps: 1}, &v.TGRec)
	if err != nil {
		return v, err
	}
	v.TGWant = r.Expected()
	v.PP, v.TG, v.Seconds = pp.Rates[0], tg.Rates[0], time.Since(start).Seconds()
	t.add("visit", key, v)
	return v, nil
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
	return out
}

// evidence is what an arm runs, by problem: artifact digests.
func (t *tune) evidence(ctx context.Context, over []kernel.Choice, k kernel.Knobs) map[string]string {
	p := t.lab.plan.with(over, t.lab.plan.layouts)
	out := map[string]string{"knobs": fmt.Sprintf("%+v", k)}
	for _, s := range t.best {
		prob := s.Choice.Problem
		if c, err := p.Choice(ctx, prob); err == nil {
			if a, err := p.Artifact(ctx, c); err == nil {
				out[prob.String()] = a.Digest()
			}
		}
	}
	return out
}

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
		case !t.changed():
			x.v.Why = "no candidate beat the default in situ"
		case x.v.Pairs < stat.MinPairs:
			x.v.Why = measure.WhyBudget
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
