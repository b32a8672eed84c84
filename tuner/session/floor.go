package session

import (
	"context"
	"fmt"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// The noise floor is measured as the confirmation measures: two runs of the same arm take turns of a
// few decode steps at a real context, and a pair is the ratio of their medians.
const (
	floorPairs   = 16 // at most
	floorTurns   = 5  // of each run of a pair
	plannedPairs = 4  // of the confirmation
)

var floorTurn = bench.Test{Gen: 4, Depth: 128}

// floor measures the A/A noise.
func (t *tune) floor(ctx context.Context) error {
	t.Progress("noise floor", "the default against itself")
	end := time.Now().Add(time.Duration(shareFloor * float64(t.left())))
	r, err := t.lab.runner(ctx)
	if err != nil {
		return err
	}
	if err := t.rates(ctx, r); err != nil {
		return err
	}
	var pairs []float64
	dropped := 0
	for i := 0; i < floorPairs && (i < 6 || time.Now().Before(end)); i++ {
		mark := t.Watch.Mark()
		b, err := r.Bench(ctx, runner.Bench{Test: floorTurn, Reps: 2 * floorTurns}, nil)
		if err != nil {
			return err
		}
		if t.Watch.Disturbed(mark) != "" {
			dropped++
			continue
		}
		pairs = append(pairs, aaPair(b.Rates, i))
	}
	t.res.Floor = measure.AAFloor(pairs, plannedPairs, dropped, t.Seed)
	if t.res.Floor.Level == measure.Refused && !t.AllowBusy {
		return fmt.Errorf("%w: %s", ErrFloor, t.res.Floor.Why)
	}
	return nil
}

// rates measures about how fast the default is: the plan of the rest of the tune rests on it.
func (t *tune) rates(ctx context.Context, r *runner.Runner) error {
	for _, x := range []struct {
		rate *float64
		test bench.Test
		reps int
	}{{&t.ppRate, bench.Test{Prompt: 128}, 2}, {&t.tgRate, floorTurn, 4}} {
		b, err := r.Bench(ctx, runner.Bench{Test: x.test, Reps: x.reps}, nil)
		if err != nil {
			return err
		}
		*x.rate = stat.Median(b.Rates)
	}
	return nil
}

// takes is about how long a workload takes.
func (t *tune) takes(w bench.Test) time.Duration {
	return time.Duration((float64(w.Prompt)/t.ppRate + float64(w.Gen)/t.tgRate) * 1e9)
}

// duelTakes is about how long a pair of fresh processes takes.
func (t *tune) duelTakes() time.Duration {
	one := time.Duration((t.lab.loaded.Seconds+0.5)*1e9) + t.takes(bench.Test{Prompt: 64 + 512, Gen: tgTurn * tgTurns})
	return 2 * one * 11 / 10
}

// confirmNeeds is the time that must be left when the confirmation starts.
func (t *tune) confirmNeeds() time.Duration {
	return max(3*t.duelTakes()+reserve, time.Duration(shareConfirm*float64(t.left())))
}

// aaPair deals turns to two runs of the same arm, ABBA, first and second swapped in every other pair,
// and returns the log-ratio of their medians.
func aaPair(rates []float64, pair int) float64 {
	var runs [2][]float64
	for i, r := range rates {
		a := (i + 1) / 2 % 2
		runs[(a+pair)%2] = append(runs[(a+pair)%2], r)
	}
	return measure.DecodeRate.Gain(stat.Median(runs[0]), stat.Median(runs[1]))
}
