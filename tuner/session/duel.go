package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// duel is one pair of fresh processes, one for each arm, both loaded. They take turns within the
// second, so that what moves the machine moves both; only one runs at a time.
type duel struct {
	Visits  [2]visit `json:"visits"`
	Seconds float64  `json:"seconds"`
	// Disturbed says why the pair does not count, "" if it does.
	Disturbed string `json:"disturbed,omitempty"`
}

// visit is what one process of a duel gave.
type visit struct {
	Samples []sample      `json:"samples"`
	Crash   *runner.Crash `json:"crash,omitempty"`
}

// sample is a rate, with the receipt of the job and what it had to show: the process that was
// started and the nonce that it was sent.
type sample struct {
	Phase string       `json:"phase"`
	Rate  float64      `json:"rate"`
	Work  int64        `json:"work"`
	Rec   wire.Receipt `json:"rec"`
	Want  wire.Receipt `json:"want"`
}

// turns of a duel: pp512, then tg128 at the context that it left, in turns of tgTurn steps.
const (
	tgDepth = 512
	tgTurn  = 8
	tgTurns = 128 / tgTurn
)

func (t *tune) duel(ctx context.Context, pair int, order [2]int, ps []*planner, ks []kernel.Knobs) (duel, error) {
	var d duel
	arm := kernel.Arm{Choices: t.finalists(), Knobs: ks[1]}
	key := fmt.Sprintf("%s %d", kernel.KeyDigest(arm), pair) // a resumed tune may have found another arm
	if t.short {
		key = "stored " + key
	}
	if t.done("duel", key, &d) {
		return d, nil
	}
	start, mark := time.Now(), t.Watch.Mark()
	groups := [][]int{order[:]}
	if 2*int64(t.lab.loaded.WeightsBytes)+spare > t.Memory {
		groups = [][]int{order[:1], order[1:]} // no room for two: one after the other
	}
	for _, arms := range groups {
		if err := t.group(ctx, &d, arms, ps, ks); err != nil {
			return d, err
		}
	}
	d.Seconds, d.Disturbed = time.Since(start).Seconds(), t.Watch.Disturbed(mark)
	t.add("duel", key, d)
	return d, nil
}

// spare is the memory that a duel leaves to everything else.
const spare = 1 << 30

// group starts a process for each arm, lets them take turns, and ends them.
func (t *tune) group(ctx context.Context, d *duel, arms []int, ps []*planner, ks []kernel.Knobs) error {
	var rs [2]*runner.Runner
	defer func() {
		for _, r := range rs {
			if r != nil {
				r.Close()
			}
		}
	}()
	for _, arm := range arms {
		r, err := runner.Start(ctx, ps[arm])
		if err != nil {
			return err
		}
		rs[arm] = r
		load := t.lab.load
		load.Knobs = ks[arm]
		_, err = r.Load(ctx, load)
		if err == nil {
			_, err = r.Bench(ctx, runner.Bench{Test: bench.Test{Prompt: 64}, Reps: 1}, nil)
		}
		if err := d.Visits[arm].crashed(err); err != nil {
			return err
		}
	}
	if err := t.turn(ctx, d, arms, rs, phasePrefill, bench.PP512); err != nil {
		return err
	}
	for range tgTurns {
		if err := t.turn(ctx, d, arms, rs, phaseDecode, bench.Test{Gen: tgTurn, Depth: tgDepth}); err != nil {
			return err
		}
		arms = slices.Clone(arms)
		slices.Reverse(arms)
	}
	return nil
}

// turn lets the processes run a workload, one after the other.
func (t *tune) turn(ctx context.Context, d *duel, arms []int, rs [2]*runner.Runner, phase string, w bench.Test) error {
	for _, arm := range arms {
		v := &d.Visits[arm]
		if v.Crash != nil {
			continue
		}
		s := sample{Phase: phase, Work: int64(w.Tokens())}
		b, err := rs[arm].Bench(ctx, runner.Bench{Test: w, Reps: 1}, &s.Rec)
		if err := v.crashed(err); err != nil {
			return err
		}
		if v.Crash == nil {
			s.Rate, s.Want = b.Rates[0], rs[arm].Expected()
			v.Samples = append(v.Samples, s)
		}
	}
	return nil
}

// crashed keeps a crash as data and returns any other error.
func (v *visit) crashed(err error) error {
	if errors.As(err, &v.Crash) {
		return nil
	}
	return err
}

// judge hands a visit's samples to the judge, with what their receipts must show: the process, the
// nonce, and the linear kernels of the arm, no other's.
func (t *tune) judge(j *measure.Judge, arm measure.Arm, pair int, v visit) {
	for _, s := range v.Samples {
		metric, point := measure.PrefillRate, 512
		if s.Phase == phaseDecode {
			metric, point = measure.DecodeRate, 1
		}
		rec := measure.Receipt{Nonce: s.Rec.Nonce, PID: s.Rec.PID, Start: int64(s.Rec.Start), Exe: s.Rec.Exe,
			Calls: t.linearCalls(s.Rec.Calls, point), Bytes: s.Rec.Bytes}
		want := measure.Expect{Nonce: s.Want.Nonce, PID: s.Want.PID, Start: int64(s.Want.Start), Exe: s.Want.Exe,
			Artifacts: t.expected(arm, point)}
		err := j.Add(measure.Sample{Arm: arm.Name, Block: pair, Metric: metric.Name, Value: s.Rate, Work: s.Work, Receipt: rec}, want)
		if err != nil {
			slog.Warn("sample refused", "why", err)
		}
	}
}

// expected lists the linear kernels of an arm at a tuning point.
func (t *tune) expected(arm measure.Arm, point int) []string {
	var out []string
	for _, c := range t.classes {
		l, err := t.lab.plan.Layout(context.Background(), c)
		if err != nil || !t.covers(c, point) {
			continue
		}
		d := arm.Evidence[c.Problem(t.Target.Numerics.Weights, point, l).String()]
		if d != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// linearCalls keeps of a receipt the calls of kernels that tell the arms apart.
func (t *tune) linearCalls(calls map[string]int64, point int) map[string]int64 {
	out := map[string]int64{}
	for _, arm := range t.arms {
		for _, d := range t.expected(arm, point) {
			if calls[d] > 0 {
				out[d] = calls[d]
			}
		}
	}
	return out
}
