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
	// falls to Keep, or when another batch would leave too little for a race on new data that says
	// anything, so that Pick can race what it found.
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
	t := timer{left: o.Left, keep: o.Keep}
	for !s.Done() && t.another() {
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
		t.blocks = blocks
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

// timer says when a search has to end.
type timer struct {
	left       func() float64 // nil for never
	keep       float64
	was, block float64 // what was left before the last batch, and the most that a block took
	blocks     int     // of the last batch
}

// spareBlocks is what a search leaves for the race of its leaders where steps are few: enough for a
// result, and a little for blocks that take longer than the others.
const spareBlocks = minFinal + 0.2

// another reports whether there is time for another batch.
func (t *timer) another() bool {
	if t.left == nil {
		return true
	}
	now := t.left()
	if t.blocks > 0 {
		t.block = max(t.block, (t.was-now)/float64(t.blocks))
	}
	t.was = now
	return now > t.keep && (t.keep == 0 || now >= (spareBlocks+float64(t.blocks))*t.block)
}

// Compete races arms (arms[0] the control) to its end and returns a result for each of the others,
// in their order. An error of the source ends it early; the results so far still hold.
func Compete(arms []kernel.Config, src Source, o RaceOptions) ([]Result, error) {
	r, err := compete(arms, src, o)
	return r.results(arms), err
}

func compete(arms []kernel.Config, src Source, o RaceOptions) (*Race, error) {
	r := NewRace(len(arms), o)
	for !r.Done() {
		b, err := src.Measure(arms, r.Next())
		if err != nil {
			return r, err
		}
		r.Add(b)
	}
	return r, nil
}
