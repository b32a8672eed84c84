// Package search finds good configurations of a kernel.Space with few noisy measurements.
//
// A Strategy proposes (Ask) and learns (Tell); it knows no clock and no machine. Run drives one
// against a Source of paired blocks: every block measures the control too, so that a score is the
// log-speedup over the control within the same moments and drift cancels. Race eliminates arms
// within a batch as soon as an anytime-valid interval allows. All of it is deterministic by seed.
package search

import (
	"errors"

	"github.com/tilewright/tilewright/kernel"
)

// Candidate is a configuration to measure and the number of paired blocks to spend on it.
type Candidate struct {
	Config kernel.Config
	Blocks int
}

// Result is what measuring a configuration gave. Score is the mean log-speedup over the control,
// ln(cost of control / cost of config), over Blocks blocks. A Failure (a kind of crash, a wrong
// number) makes the score meaningless and the configuration untouchable. Samples is how many timings of
// the configuration the blocks held, and Control how many of the control: blocks of few arms say more
// of each. Neither is below 1 where a block counted; 0 means that they are not known, and one a block.
// Sure is the log-speedup that new data alone make sure of, at 95%: of the result of Pick, else 0.
type Result struct {
	Config  kernel.Config `json:"config"`
	Score   float64       `json:"score"`
	Blocks  int           `json:"blocks"`
	Samples int           `json:"samples,omitempty"`
	Control int           `json:"control,omitempty"`
	Sure    float64       `json:"sure,omitempty"`
	Failure string        `json:"failure,omitempty"`
}

// Strategy proposes configurations. Ask returns at most n, fewer when it must learn first, none when
// it is done or waits for Tell. It never proposes a configuration that failed, nor one outside the
// space. Best lists the k best measured so far, best first.
type Strategy interface {
	Name() string
	Ask(n int) []Candidate
	Tell([]Result)
	Done() bool
	Best(k int) []Result
}

// weight is the number of timings behind a score.
func (r *Result) weight() float64 { return float64(max(r.Samples, r.Blocks)) }

// against is that of the control in the same blocks.
func (r *Result) against() float64 { return float64(max(r.Control, r.Blocks)) }

// merge adds a result of the same configuration: scores are averaged by their weights, a failure is
// final.
func (r *Result) merge(o Result) {
	switch {
	case r.Failure != "":
	case o.Failure != "":
		r.Failure = o.Failure
	case o.Blocks > 0:
		w := r.weight()
		if r.Blocks == 0 {
			r.Score, w = 0, 0
		}
		r.Score = (r.Score*w + o.Score*o.weight()) / (w + o.weight())
		r.Samples, r.Control = int(w+o.weight()), int(r.against()+o.against())
		r.Blocks += o.Blocks
	}
}

// ErrBudget is returned by a Source whose budget does not cover another block.
var ErrBudget = errors.New("measurement budget spent")

// Block is one paired block: a cost (time per unit of work, lower is better) for each arm asked for,
// by its index, NaN where it was not measured, and the number of timings that it is the centre of, one
// each if Samples is nil. Failed arms have an entry in Failures. A disturbed block says why in Disturbed
// and counts for no arm.
type Block struct {
	Costs     []float64
	Samples   []int
	Failures  map[int]string
	Disturbed string
}

// Source measures blocks. arms[0] is the control; order lists the arms to run, in order.
type Source interface {
	Measure(arms []kernel.Config, order []int) (Block, error)
}
