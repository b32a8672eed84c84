package search

import (
	"errors"

	"github.com/tilewright/tilewright/kernel"
)

// RunOptions shape a run. Zero values mean the defaults in brackets.
type RunOptions struct {
	Batch int // [16] candidates a batch beside the control
	Race  RaceOptions
	// Seen, if set, is told every batch after it was measured (for a journal or a display).
	Seen func([]Result)
}

// known is the weight, in blocks, of the control's score: zero by definition.
const known = 1 << 20

// Run drives a strategy until it is done or the source's budget is spent; either is success. The
// strategy then holds what was learnt. The control need not be a member of the strategy's space; if
// it is, it is known to score 0 and not measured as a candidate too.
func Run(s Strategy, control kernel.Config, src Source, o RunOptions) error {
	if o.Batch < 1 {
		o.Batch = 16
	}
	s.Tell([]Result{{Config: control, Blocks: known}})
	for !s.Done() {
		cands := s.Ask(o.Batch)
		if len(cands) == 0 {
			return nil
		}
		arms, blocks := make([]kernel.Config, 1, len(cands)+1), 0
		arms[0] = control
		for _, c := range cands {
			arms = append(arms, c.Config)
			blocks = max(blocks, c.Blocks)
		}
		ro := o.Race
		ro.MaxBlocks, ro.Seed = blocks, ro.Seed+1
		o.Race.Seed = ro.Seed
		results, err := Compete(arms, src, ro)
		s.Tell(results)
		if o.Seen != nil {
			o.Seen(results)
		}
		if errors.Is(err, ErrBudget) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Compete races arms (arms[0] the control) to its end and returns a result for each of the others,
// in their order. An error of the source ends it early; the results so far still hold.
func Compete(arms []kernel.Config, src Source, o RaceOptions) ([]Result, error) {
	r := NewRace(len(arms), o)
	var err error
	for !r.Done() {
		var b Block
		if b, err = src.Measure(arms, r.Next()); err != nil {
			break
		}
		r.Add(b)
	}
	var out []Result
	for _, st := range r.Standings() {
		out = append(out, Result{arms[st.Arm], st.Score.Center, st.Score.N, st.Failure})
	}
	return out, err
}
