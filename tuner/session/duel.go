package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// contest is what pairs of fresh processes run: the default arm and another, in some phases, with
// planted arms or without.
type contest struct {
	planners        [2]*planner
	knobs           [2]kernel.Knobs
	decode, prefill bool
	planted         []measure.Arm
	pairs           int // at most
}

// duel is one pair of fresh processes, one for each arm, both loaded. They take turns within the
// second, so that what moves the machine moves both; only one runs at a time.
type duel struct {
	Visits  [2]visit `json:"visits"`
	Seconds float64  `json:"seconds"`
	Planted bool     `json:"planted,omitempty"`
	// Disturbed says why the turns of a phase do not count, if they do not.
	Disturbed map[string]string `json:"void,omitempty"`
}

// visit is what one process of a duel gave.
type visit struct {
	Samples []sample      `json:"samples"`
	Crash   *runner.Crash `json:"crash,omitempty"`
}

// sample is a rate, with the receipt of the job and what it had to show: the process that was
// started and the nonce that it was sent.
type sample struct {
	Phase   string       `json:"phase"`
	Planted string       `json:"planted,omitempty"` // the planted arm that it is of
	Turn    int          `json:"turn"`              // its round of the phase
	Rate    float64      `json:"rate"`
	Work    int64        `json:"work"`
	Rec     wire.Receipt `json:"rec"`
	Want    wire.Receipt `json:"want"`
}

// turns of a duel: pp512, then tg128 at the context that it left, in turns of tgTurn steps.
const (
	tgDepth = 512
	tgTurn  = 8
	tgTurns = 128 / tgTurn
	// pp512 is run as often as fits into ppRun.
	ppRun      = 3 * time.Second
	maxPPTurns = 4
)

// MinContext is the context without which nothing can be confirmed: a tune of less has no way to end.
const MinContext = tgDepth + tgTurn

// contestTakes is about how long a pair of fresh processes takes.
func (t *tune) contestTakes(b contest) time.Duration {
	work := bench.Test{Prompt: 64 + tgDepth} // the context that decode needs, measured or not
	if b.prefill {
		work.Prompt += (t.ppTurns() - 1) * bench.PP512.Prompt
	}
	if b.decode {
		work.Gen = tgTurn * tgTurns
	} else if len(b.planted) > 0 {
		work.Gen = tgTurn * len(plantedRounds)
	}
	all := 2*time.Duration((t.lab.loaded.Seconds+0.5)*1e9) + 2*t.takes(work)
	if len(b.planted) > 0 {
		all += t.takes(bench.Test{Gen: len(plantedRounds) * plantTurns * tgTurn})
	}
	return all * 11 / 10
}

// duel runs a pair, or recalls one that was finished before this tune was resumed. Its deadline, if it
// passes first, makes it errBudget.
func (t *tune) duel(ctx context.Context, pair int, order [2]int, b contest) (duel, error) {
	var d duel
	arm := kernel.Arm{Choices: t.finalists(), Knobs: b.knobs[1]}
	key := fmt.Sprintf("%s %d %t %t", kernel.KeyDigest(arm), pair, b.decode, b.prefill) // a resumed tune may have found another arm
	if t.short {
		key = "stored " + key
	}
	if t.done("duel", key, &d) {
		return d, nil
	}
	d = duel{Planted: len(b.planted) > 0, Disturbed: map[string]string{}}
	start := t.now()
	groups := [][]int{order[:]}
	if 2*int64(t.lab.loaded.WeightsBytes)+spare > t.Memory {
		groups = [][]int{order[:1], order[1:]} // no room for two: one after the other
	}
	for _, arms := range groups {
		if err := t.group(ctx, &d, arms, b); err != nil {
			return d, overtaken(ctx, err)
		}
	}
	d.Seconds = t.now().Sub(start).Seconds()
	t.add("duel", key, d)
	return d, nil
}

// spare is the memory that a duel leaves to everything else.
const spare = 1 << 30

// group starts a process for each arm, lets them take turns, and ends them.
func (t *tune) group(ctx context.Context, d *duel, arms []int, b contest) error {
	var ps [2]process
	defer func() {
		for _, p := range ps {
			if p != nil {
				p.Close()
			}
		}
	}()
	for _, arm := range arms {
		p, err := t.lab.start(ctx, b.planners[arm])
		if err != nil {
			return err
		}
		ps[arm] = p
		load := t.lab.load
		load.Knobs = b.knobs[arm]
		_, err = p.Load(ctx, load)
		if err == nil {
			_, err = p.Bench(ctx, runner.Bench{Test: bench.Test{Prompt: 64}, Reps: 1}, nil)
		}
		if err := d.Visits[arm].crashed(err); err != nil {
			return err
		}
	}
	if b.prefill {
		err := t.block(d, phasePrefill, func() error { return t.prefillTurns(ctx, d, ps, arms) })
		if err != nil {
			return err
		}
	}
	return t.block(d, phaseDecode, func() error { return t.decodeTurns(ctx, d, ps, arms, b) })
}

// block runs the turns of a phase. What disturbs them voids the phase of this pair, for all arms alike.
// It is one block for all rounds: a single one is too short for the clock ticks by which others' use of
// the cores is counted.
func (t *tune) block(d *duel, phase string, f func() error) error {
	mark := t.Watch.Mark()
	if err := f(); err != nil {
		return err
	}
	for _, v := range d.Visits {
		if v.Crash != nil { // the pair is none, whatever disturbed it
			t.lab.watch.Failed(v.Crash)
			return nil
		}
	}
	if why := t.Watch.Disturbed(mark); why != "" && d.Disturbed[phase] == "" {
		d.Disturbed[phase] = why
	}
	return nil
}

// prefillTurns are the rounds of passes of pp512.
func (t *tune) prefillTurns(ctx context.Context, d *duel, ps [2]process, arms []int) error {
	arms = slices.Clone(arms)
	for i := range t.ppTurns() {
		if err := t.round(ctx, d, ps, sample{Phase: phasePrefill, Turn: i}, bench.PP512, turnsOf(arms)); err != nil {
			return err
		}
		slices.Reverse(arms)
	}
	return nil
}

// ppTurns is how many passes of pp512 a run of a pair makes: 1, or 2 or 4 if they fit into ppRun. The short
// passes of a small model scatter most, and its processes have cost seconds before their first; in an even
// number of turns that change places drift cancels.
func (t *tune) ppTurns() int {
	turns := 1
	for turns < maxPPTurns && time.Duration(2*turns)*t.takes(bench.PP512) <= ppRun {
		turns *= 2
	}
	return turns
}

// decodeTurns are the rounds of decode turns, those of the planted arms among them. Where decode is
// not judged only the rounds beside the planted ones are run.
func (t *tune) decodeTurns(ctx context.Context, d *duel, ps [2]process, arms []int, b contest) error {
	arms = slices.Clone(arms)
	for i := range tgTurns {
		planted := len(b.planted) > 0 && slices.Contains(plantedRounds[:], i)
		if b.decode || planted {
			turns := turnsOf(arms)
			if planted {
				turns = append(turns, plantedTurns(arms, b.planted)...)
			}
			if err := t.round(ctx, d, ps, sample{Phase: phaseDecode, Turn: i}, bench.Test{Gen: tgTurn, Depth: tgDepth}, turns); err != nil {
				return err
			}
		}
		slices.Reverse(arms)
	}
	return nil
}

// turnsOf is one turn of each arm.
func turnsOf(arms []int) []turnOf {
	var out []turnOf
	for _, a := range arms {
		out = append(out, turnOf{process: a, repeat: 1})
	}
	return out
}

// round lets the processes take their turns at a workload; of says which round of which phase it is.
func (t *tune) round(ctx context.Context, d *duel, ps [2]process, of sample, w bench.Test, turns []turnOf) error {
	for _, x := range turns {
		v := &d.Visits[x.process]
		if v.Crash != nil {
			continue
		}
		s := of
		s.Planted, s.Work = x.planted, int64(w.Tokens())
		b, err := ps[x.process].Bench(ctx, runner.Bench{Test: w, Reps: x.repeat}, &s.Rec)
		if err := v.crashed(err); err != nil {
			return err
		}
		if v.Crash == nil {
			s.Rate, s.Want = once(b.Rates), ps[x.process].Expected()
			v.Samples = append(v.Samples, s)
		}
	}
	return nil
}

// once is the rate of work that was done as often as there are rates, and counts once.
func once(rates []float64) float64 {
	s := 0.0
	for _, r := range rates {
		s += 1 / r
	}
	return 1 / s
}

// crashed keeps a crash as data and returns any other error.
func (v *visit) crashed(err error) error {
	if errors.As(err, &v.Crash) {
		return nil
	}
	return err
}
