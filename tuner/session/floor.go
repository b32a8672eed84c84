package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// Each phase has a noise floor of its own, measured as the confirmation measures: runs of the same arm
// take turns, ABBA, and a pair is the ratio of their medians. Decode takes turns of a few steps at a
// real context; of prefill a run is one pass, of as many tokens as its share of the time allows.
const (
	floorPairs   = 16   // at most
	floorMin     = 6    // pairs
	floorMost    = 0.10 // of the time left: a phase whose floor takes more is not judged
	plannedPairs = 4    // of the confirmation
)

// aa is how the A/A noise of a phase is measured.
type aa struct {
	test  bench.Test
	turns int // of each run of a pair
	takes time.Duration
	share float64 // of the time left
}

// decodeTurns are the sizes of a decode pair, best first.
var decodeTurns = []aa{
	{test: bench.Test{Gen: 4, Depth: 128}, turns: 5}, {test: bench.Test{Gen: 4, Depth: 128}, turns: 3},
	{test: bench.Test{Gen: 2, Depth: 64}, turns: 3}, {test: bench.Test{Gen: 1, Depth: 16}, turns: 3},
}

// phase is one whose noise is to be measured.
type phase struct {
	name   string
	on     *bool
	metric measure.Metric
	size   func() (aa, bool) // of a pair, if the least number of them fits
}

func (t *tune) phases() []phase {
	return []phase{{phasePrefill, &t.Prefill, measure.PrefillRate, t.prefillPair}, {phaseDecode, &t.Decode, measure.DecodeRate, t.decodePair}}
}

// confirmable reports whether three pairs of the confirmation fit behind the noise floors. If not there is
// nothing to be had from the rest of the tune either. Phases whose floor does not fit are set aside.
func (t *tune) confirmable() bool {
	floors := time.Duration(0)
	for _, p := range t.phases() {
		if !*p.on {
			continue
		}
		if pair, fits := p.size(); fits {
			floors += min(floorPairs*pair.takes, time.Duration(pair.share*float64(t.left())))
		} else {
			t.setAside(p.name, p.on, measure.WhyBudget)
		}
	}
	if !t.Decode && !t.Prefill {
		return false
	}
	pairs := stat.MinPairs * t.duelTakes()
	short := floors + pairs + reserve - t.left()
	if short > 0 {
		slog.Warn("the budget is too small for this model", "three pairs of fresh processes take about", pairs.Round(time.Second),
			"left", t.left().Round(time.Second), "missing", short.Round(time.Second))
	}
	return short <= 0
}

// floor measures the A/A noise of the phases asked for. A phase that cannot be judged is set aside with
// its reason; if noise is why none can, it returns ErrFloor, and errBudget if time is.
func (t *tune) floor(ctx context.Context, r process) error {
	t.Progress("noise floor", "the default against itself")
	if err := t.rates(ctx, r); err != nil {
		return err
	}
	if !t.confirmable() {
		return errBudget
	}
	var noisy []string
	for _, p := range t.phases() {
		if !*p.on {
			continue
		}
		pair, fits := p.size()
		if !fits {
			t.setAside(p.name, p.on, measure.WhyBudget)
			continue
		}
		f, err := t.phaseFloor(ctx, r, p.metric, pair)
		if errors.Is(err, errBudget) {
			t.setAside(p.name, p.on, measure.WhyBudget)
			continue
		}
		if err != nil {
			return err
		}
		t.res.Floors[p.name] = f
		if f.Level == measure.Refused && !t.AllowBusy {
			noisy = append(noisy, p.name+": "+f.Why)
			t.setAside(p.name, p.on, f.Why)
		}
	}
	t.res.Floor = t.floorOf(phaseDecode)
	switch {
	case t.Decode || t.Prefill:
		return nil
	case len(noisy) == len(t.aside):
		return fmt.Errorf("%w: %s", ErrFloor, strings.Join(noisy, "; "))
	}
	return errBudget
}

// setAside gives a phase up; the rest of the tune goes on without it.
func (t *tune) setAside(phase string, on *bool, why string) {
	*on = false
	t.aside[phase] = why
}

// floorOf is the floor of a phase, or of the other one where that phase was not asked for.
func (t *tune) floorOf(phase string) measure.Floor {
	for _, p := range []string{phase, phaseDecode, phasePrefill} {
		if f, ok := t.res.Floors[p]; ok {
			return f
		}
	}
	return measure.AAFloor(nil, plannedPairs, 0, t.Seed)
}

// decodePair is the best size of a decode pair of which the least number fits.
func (t *tune) decodePair() (aa, bool) {
	for _, p := range decodeTurns {
		p.takes, p.share = t.takes(bench.Test{Gen: 2 * p.turns * p.test.Gen}), shareFloor
		fill := t.takes(bench.Test{Prompt: p.test.Depth})
		if fill+floorMin*p.takes <= time.Duration(floorMost*float64(t.left())) {
			return p, true
		}
	}
	return aa{}, false
}

// prefillPair is what a pair of the confirmation does, or as many of its passes as the share of the time
// allows; one of each run at least, as long as the time allows. A pair of shorter passes is one pair, no less: the noise of neighbouring passes hardly falls
// with their length (BENCHMARKS.md), and where it does the short ones show more of it.
func (t *tune) prefillPair() (aa, bool) {
	const step = 16
	n := int(sharePrefillFloor*t.left().Seconds()*t.ppRate/(2*floorMin)) / step * step // of a run
	turns := t.ppTurns()
	for turns > 1 && turns*bench.PP512.Prompt > n {
		turns /= 2
	}
	n = min(n/turns, bench.PP512.Prompt)
	return aa{test: bench.Test{Prompt: n}, turns: turns, takes: t.takes(bench.Test{Prompt: 2 * turns * n}), share: sharePrefillFloor}, n >= step
}

// phaseFloor runs pairs until the share of the time is spent, at least floorMin. A pair that something
// disturbed is dropped, whatever it says.
func (t *tune) phaseFloor(ctx context.Context, r process, m measure.Metric, p aa) (measure.Floor, error) {
	start, left := t.now(), t.left()
	share := start.Add(time.Duration(p.share * float64(left)))
	most := start.Add(2 * time.Duration(floorMost*float64(left))) // the rate was an estimate
	// The first pass at a new number of rows fetches its kernels: it counts for nobody.
	if _, err := r.Bench(ctx, runner.Bench{Test: p.test, Reps: 1}, nil); err != nil {
		return measure.Floor{}, overtaken(ctx, err)
	}
	var pairs []float64
	tried := 0
	for ; tried < floorPairs; tried++ {
		next := t.now().Add(p.takes)
		if next.After(most) || len(pairs) >= floorMin && next.After(share) {
			break
		}
		begun, mark := t.now(), t.Watch.Mark()
		b, err := r.Bench(ctx, runner.Bench{Test: p.test, Reps: 2 * p.turns}, nil)
		if err != nil {
			return measure.Floor{}, overtaken(ctx, err)
		}
		if t.Watch.Disturbed(mark) == "" {
			pairs = append(pairs, aaPair(m, b.Rates, tried))
		}
		p.takes = t.now().Sub(begun)
	}
	if tried < stat.MinPairs {
		return measure.Floor{}, errBudget
	}
	return measure.AAFloor(pairs, plannedPairs, tried-len(pairs), t.Seed), nil
}

// rates measures about how fast the default is: the plan of the rest of the tune rests on it. The
// first look is one token after a few; what it costs says how much more can be afforded.
func (t *tune) rates(ctx context.Context, r process) error {
	const few = 16
	begun := t.now()
	b, err := r.Bench(ctx, runner.Bench{Test: bench.Test{Gen: 1, Depth: few}, Reps: 1}, nil)
	if err != nil {
		return overtaken(ctx, err)
	}
	t.tgRate = b.Rates[0]
	fill := t.now().Sub(begun).Seconds() - 1/t.tgRate
	t.ppRate = few / max(fill, 1e-6)
	afford := time.Duration(shareFloor * float64(t.left()))
	for _, x := range []struct {
		rate  *float64
		test  bench.Test
		reps  int
		costs bench.Test
	}{
		{&t.ppRate, bench.Test{Prompt: 128}, 2, bench.Test{Prompt: 256}},
		{&t.tgRate, bench.Test{Gen: 4, Depth: 128}, 4, bench.Test{Prompt: 128, Gen: 16}},
	} {
		if t.takes(x.costs) > afford {
			continue // the first look must do
		}
		b, err := r.Bench(ctx, runner.Bench{Test: x.test, Reps: x.reps}, nil)
		if err != nil {
			return overtaken(ctx, err)
		}
		*x.rate = stat.Median(b.Rates)
	}
	return nil
}

// takes is about how long a workload takes.
func (t *tune) takes(w bench.Test) time.Duration {
	return time.Duration((float64(w.Prompt)/t.ppRate + float64(w.Gen)/t.tgRate) * 1e9)
}

// duelTakes is about how long a pair of fresh processes takes that judges the phases asked for.
func (t *tune) duelTakes() time.Duration {
	return t.contestTakes(contest{decode: t.Decode, prefill: t.Prefill})
}

// confirmNeeds is the time that must be left when the confirmation starts.
func (t *tune) confirmNeeds() time.Duration {
	return max(3*t.duelTakes()+reserve, time.Duration(shareConfirm*float64(t.left())))
}

// aaPair deals turns to two runs of the same arm, ABBA, first and second swapped in every other pair,
// and returns the log-ratio of their medians.
func aaPair(m measure.Metric, rates []float64, pair int) float64 {
	var runs [2][]float64
	for i, r := range rates {
		a := (i + 1) / 2 % 2
		runs[(a+pair)%2] = append(runs[(a+pair)%2], r)
	}
	return m.Gain(stat.Median(runs[0]), stat.Median(runs[1]))
}
