package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// knob is one setting of the engine that is raced by itself, the others as the arm has them.
type knob struct {
	name   string
	phase  string // load: judged by the time to pack a layer
	values func(t *tune) []int
	field  func(k *kernel.Knobs) *int
	test   bench.Test
}

var knobs = []knob{
	{"threads_decode", phaseDecode, threadCounts, func(k *kernel.Knobs) *int { return &k.ThreadsDecode }, bench.Test{Gen: 8, Depth: 128}},
	{"threads_prefill", phasePrefill, threadCounts, func(k *kernel.Knobs) *int { return &k.ThreadsPrefill }, bench.Test{Prompt: 128}},
	{"panel_min_m", phasePrefill, fixed(33, 65, 129), func(k *kernel.Knobs) *int { return &k.PanelMinM }, bench.Test{Prompt: 96}},
	{"prefill_chunk", phasePrefill, fixed(256, 512), func(k *kernel.Knobs) *int { return &k.PrefillChunk }, bench.PP512},
	{"repack_rows", "load", fixed(16, 64, 256, 1024), func(k *kernel.Knobs) *int { return &k.RepackRows }, bench.Test{}},
}

func fixed(vs ...int) func(*tune) []int { return func(*tune) []int { return vs } }

// threadCounts are 1, half, all but one and all of the threads.
func threadCounts(t *tune) []int {
	p := max(t.Knobs.ThreadsDecode, t.Knobs.ThreadsPrefill)
	vs := []int{1, (p + 1) / 2, p - 1, p}
	slices.Sort(vs)
	return slices.DeleteFunc(slices.Compact(vs), func(v int) bool { return v < 1 })
}

// screenKnobs races the values of each knob against the default, one knob at a time, within its
// share of the time. A value that gains replaces the default in the composed arm.
func (t *tune) screenKnobs(ctx context.Context) error {
	end := time.Now().Add(min(time.Duration(shareKnobs*float64(t.Budget)), t.left()-3*t.duelTakes()-reserve))
	r, err := t.lab.runner(ctx)
	if err != nil {
		return err
	}
	for i, k := range knobs {
		on := k.phase == phaseDecode && t.Decode || k.phase == phasePrefill && t.Prefill || k.phase == "load" && t.Ref.Path != ""
		if _, pinned := t.Target.Pinned["threads"]; pinned && strings.HasPrefix(k.name, "threads") {
			continue // the user fixed them
		}
		if !on || !time.Now().Before(end) {
			continue
		}
		until := time.Now().Add(time.Until(end) / time.Duration(len(knobs)-i))
		err := t.race(ctx, r, k, until)
		var crash *runner.Crash
		if errors.As(err, &crash) { // the knob keeps its default; what follows runs in fresh processes
			slog.Warn("knob not raced further", "knob", k.name, "why", crash)
			return nil
		}
		if err != nil {
			return fmt.Errorf("knob %s: %w", k.name, err)
		}
	}
	return r.SetKnobs(ctx, t.Knobs)
}

// race is the race of one knob.
func (t *tune) race(ctx context.Context, r *runner.Runner, k knob, until time.Time) error {
	base := t.knobs
	control := int64(*k.field(&base))
	arms := []kernel.Config{{k.name: control}}
	for _, v := range k.values(t) {
		if int64(v) != control {
			arms = append(arms, kernel.Config{k.name: int64(v)})
		}
	}
	var rs []search.Result
	if len(arms) == 1 {
		return nil
	}
	if !t.done("knob", k.name, &rs) {
		t.Progress("knob", k.name)
		src := &knobSource{t: t, ctx: ctx, r: r, k: k, until: until}
		var err error
		rs, err = search.Compete(arms, src, search.RaceOptions{MaxBlocks: 12, Seed: t.Seed})
		if err != nil && err != search.ErrBudget {
			return err
		}
		rs = slices.DeleteFunc(rs, func(r search.Result) bool { return r.Blocks == 0 || math.IsNaN(r.Score) })
		t.add("knob", k.name, rs)
	}
	best := search.Result{Config: arms[0]}
	for _, x := range rs {
		if x.Failure == "" && x.Blocks >= 3 && x.Score > max(best.Score, smallGain) {
			best = x
		}
	}
	*k.field(&t.knobs) = int(best.Config[k.name])
	v := Verdict{Phase: k.phase, Weights: string(t.Target.Numerics.Weights), Problem: "knob " + k.name, Config: best.Config,
		Ratio: measure.Ratio{Median: math.Exp(best.Score), Lo: math.Inf(-1), Hi: math.Inf(1)}, Decision: string(measure.NoWinner), Why: "no value gains"}
	if best.Score > 0 {
		v.Finalist, v.Why = true, fmt.Sprintf("gains in %d blocks", best.Blocks)
	}
	t.res.Verdicts = append(t.res.Verdicts, v)
	return nil
}

// knobSource measures blocks of one knob: every arm once, in the order of the race.
type knobSource struct {
	t     *tune
	ctx   context.Context
	r     *runner.Runner
	k     knob
	until time.Time
	layer int
}

// Measure runs one block.
func (s *knobSource) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	if time.Now().Add(time.Duration(len(order)) * s.t.takes(s.k.test)).After(s.until) {
		return search.Block{}, search.ErrBudget
	}
	b := search.Block{Costs: make([]float64, len(arms))}
	for i := range b.Costs {
		b.Costs[i] = math.NaN()
	}
	mark := s.t.Watch.Mark()
	for _, i := range order {
		sec, err := s.once(int(arms[i][s.k.name]))
		if err != nil {
			return b, err
		}
		b.Costs[i] = sec
	}
	s.layer++
	b.Disturbed = s.t.Watch.Disturbed(mark)
	return b, nil
}

func (s *knobSource) once(value int) (float64, error) {
	if s.k.phase == "load" {
		return s.r.Pack(s.ctx, runner.Pack{Layer: s.layer % len(s.t.Target.Model.Spec.Layers), Rows: value})
	}
	k := s.t.knobs
	k.RepackRows = s.t.Knobs.RepackRows // the runner was loaded with it
	*s.k.field(&k) = value
	if err := s.r.SetKnobs(s.ctx, k); err != nil {
		return 0, err
	}
	got, err := s.r.Bench(s.ctx, runner.Bench{Test: s.k.test, Reps: 1}, nil)
	if err != nil {
		return 0, err
	}
	return 1 / got.Rates[0], nil
}
