package search

import (
	"errors"

	"github.com/tilewright/tilewright/kernel"
)

// RunOptions shape a run. Zero values mean the defaults in brackets.
type RunOptions struct {
	Batch int // [16] candidates a batch beside the control
	Race  RaceOptions
	// Left, if set, is the share of the budget that is left, from 1 to 0. The search ends when it
	// falls to Keep, so that Pick can race what it found.
	Left func() float64
	Keep float64
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
	for !s.Done() && (o.Left == nil || o.Left() > o.Keep) {
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

// Finalists is the number of leaders of a search that Pick races again.
const Finalists = 6

// finalTie is the log-ratio within which finalists are as good.
const finalTie = 0.005

// Pick drives a strategy as Run does and races its leaders on new data with what is left of the
// budget: what leads after a search leads partly by luck. It returns the winner of that race, nil if
// nothing beat the control; its Blocks are those of the new data. A race that the budget cuts short
// before its second block decides nothing, and the leader of all data is returned, with no blocks.
func Pick(s Strategy, control kernel.Config, src Source, o RunOptions) (*Result, error) {
	if err := Run(s, control, src, o); err != nil {
		return nil, err
	}
	arms := []kernel.Config{control}
	for _, r := range s.Best(Finalists) {
		if r.Config.String() != control.String() && r.Score > 0 {
			arms = append(arms, r.Config)
		}
	}
	if len(arms) == 1 {
		return nil, nil
	}
	ro := o.Race
	ro.MinBlocks, ro.MaxBlocks, ro.Keep, ro.Tie, ro.Seed = leastFinal, finalBlocks, 1, finalTie, ro.Seed+1<<32
	finals, err := Compete(arms, src, ro)
	if err != nil && !errors.Is(err, ErrBudget) {
		return nil, err
	}
	s.Tell(finals)
	if o.Seen != nil && len(finals) > 0 {
		o.Seen(finals)
	}
	return bestOf(s, finals), nil
}

const (
	finalBlocks = 40 // of the race of the finalists, at most
	leastFinal  = 5  // before it may end
	minFinal    = 2  // blocks below which it says nothing
)

// bestOf is the best of a final race, by new data where there are enough, nil if it is the control.
func bestOf(s Strategy, finals []Result) *Result {
	var best *Result
	for _, r := range finals {
		if r.Failure == "" && r.Blocks < minFinal {
			if top := s.Best(1); len(top) > 0 && top[0].Score > 0 {
				top[0].Blocks = 0 // of new data
				return &top[0]
			}
			return nil
		}
		if r.usable() && r.Score > 0 && (best == nil || r.Score > best.Score) {
			best = &r
		}
	}
	return best
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
