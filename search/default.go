package search

import (
	"github.com/tilewright/tilewright/kernel"
)

// DefaultBatch is the number of candidates in a block where steps are many.
const DefaultBatch = 8

// FinalShare is the share of a search's time that Pick keeps for racing its leaders on new data.
const FinalShare = 0.3

// fewSteps is the number of steps below which a block should hold as many candidates as a step has
// layers for: where a step takes seconds, breadth is worth more than the precision of one look.
const fewSteps = 40

// Batch is the number of candidates beside the control in a block, for a search by s of about that many
// in-situ steps over a number of layers.
func Batch(s Strategy, steps, layers int) int {
	n := DefaultBatch
	if steps >= fewSteps {
		return n
	}
	for n+1+controlsOf(n+1, controls(s, 0)) <= layers {
		n++
	}
	return n
}

// NewDefault is the strategy to use: Thompson sampling with a linear model, one block a first look.
// It has the least regret of all strategies in simulation and on the recordings: BENCHMARKS.md has the
// tables, and those of landscapes that nothing was tuned on.
func NewDefault(s kernel.Space, seed uint64, limit int) (Strategy, error) {
	return NewBayes(s, seed, limit, 1)
}

// Named is a strategy with the settings that it is compared with.
type Named struct {
	Name string
	New  func(s kernel.Space, seed uint64) (Strategy, error)
}

// unlimited is more than any budget covers.
const unlimited = 1 << 20

// Strategies lists every strategy, the default first.
func Strategies() []Named {
	return []Named{
		{"bayes", func(s kernel.Space, seed uint64) (Strategy, error) { return NewDefault(s, seed, unlimited) }},
		{"tpe", func(s kernel.Space, seed uint64) (Strategy, error) { return NewTPE(s, seed, unlimited, 1) }},
		{"descent", func(s kernel.Space, seed uint64) (Strategy, error) { return NewDescent(s, seed, unlimited, 1) }},
		{"halving", func(s kernel.Space, seed uint64) (Strategy, error) { return NewHalving(s, seed, 96, unlimited, 1) }},
		{"random", func(s kernel.Space, seed uint64) (Strategy, error) { return NewRandom(s, seed, unlimited, 3) }},
		{"exhaustive", func(s kernel.Space, _ uint64) (Strategy, error) { return NewExhaustive(s, 3) }},
	}
}
