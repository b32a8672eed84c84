package session

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// knobSource measures blocks of one knob: every arm once, in the order of the race.
type knobSource struct {
	t     *tune
	ctx   context.Context
	r     process
	k     knob
	until time.Time
	layer int
}

// acting sorts out the values that leave no other trace in what runs than the control or an earlier
// value: they are inert, and not raced. The trace is what the receipt shows, as in the confirmation.
func (s *knobSource) acting(control int, values []int) (acting, inert []int, err error) {
	seen, key := map[string]bool{}, fmt.Sprint(s.k.name, control, values)
	if s.t.done("inert", key, &inert) {
		return slices.DeleteFunc(values, func(v int) bool { return slices.Contains(inert, v) }), inert, nil
	}
	for _, v := range append([]int{control}, values...) {
		trace, err := s.trace(v)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case v == control:
		case seen[trace]:
			inert = append(inert, v)
		default:
			acting = append(acting, v)
		}
		seen[trace] = true
	}
	s.t.add("inert", key, inert)
	return acting, inert, nil
}

func (s *knobSource) trace(value int) (string, error) {
	if s.k.phase == phaseLoad {
		return s.batches(value), nil
	}
	if s.t.now().Add(s.t.takes(s.work())).After(s.until) {
		return "", search.ErrBudget
	}
	var rec wire.Receipt
	if _, err := s.bench(value, &rec); err != nil {
		return "", err
	}
	left, whole := leftBy(s.k.phase, rec)
	if !whole { // it may act all the same
		left += fmt.Sprintln("as", value)
	}
	return left, nil
}

// batches is what a number of rows means to each kind of matrix: into how many parts it is made before
// it is packed. Rows that keep their grid are packed from where they lie.
func (s *knobSource) batches(rows int) string {
	var out []int
	if s.t.Target.Numerics.Requant == 0 {
		return ""
	}
	for _, c := range s.t.classes {
		out = append(out, (c.N+rows-1)/rows)
	}
	return fmt.Sprint(out)
}

// compete races the values; its intervals hold whenever one looks.
func (s *knobSource) compete(control int, values []int) ([]standing, error) {
	if len(values) == 0 {
		return nil, nil
	}
	arms := []kernel.Config{{s.k.name: int64(control)}}
	for _, v := range values {
		arms = append(arms, kernel.Config{s.k.name: int64(v)})
	}
	src := &recorded{t: s.t, src: s, name: "knob " + s.k.name}
	race := search.NewRace(len(arms), search.RaceOptions{MaxBlocks: 12, Seed: s.t.Seed})
	var err error
	for err == nil && !race.Done() {
		var b search.Block
		if b, err = src.Measure(arms, race.Next()); err == nil {
			race.Add(b)
		}
	}
	var out []standing
	for _, x := range race.Standings() {
		if x.Failure == "" && x.Score.N > 1 && !math.IsNaN(x.Score.Center) {
			out = append(out, standing{values[x.Arm-1], x.Score.Center, bound(x.Score.Lo), bound(x.Score.Hi), x.Score.N})
		}
	}
	return out, err
}

func bound(x float64) float64 { return min(max(x, -unbounded), unbounded) }

// work is the workload of a block, with the context that it needs.
func (s *knobSource) work() bench.Test {
	return bench.Test{Prompt: s.k.test.Prompt, Gen: s.k.test.Gen}
}

// Measure runs one block.
func (s *knobSource) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	if s.t.now().Add(time.Duration(len(order)) * s.t.takes(s.work())).After(s.until) {
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
	if s.k.phase == phaseLoad {
		return s.r.Pack(s.ctx, runner.Pack{Layer: s.layer % len(s.t.Target.Model.Spec.Layers), Rows: value})
	}
	return s.bench(value, nil)
}

// bench runs the workload with a value of the knob and returns the seconds of a token.
func (s *knobSource) bench(value int, rec *wire.Receipt) (float64, error) {
	k := s.t.knobs
	k.RepackRows = s.t.Knobs.RepackRows // the runner was loaded with it
	*s.k.field(&k) = value
	if err := s.r.SetKnobs(s.ctx, k); err != nil {
		return 0, err
	}
	got, err := s.r.Bench(s.ctx, runner.Bench{Test: s.k.test, Reps: 1}, rec)
	if err != nil {
		return 0, err
	}
	return 1 / got.Rates[0], nil
}
