package search

import (
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
)

// RaceOptions bound a race. Zero values mean the defaults in brackets.
type RaceOptions struct {
	Alpha     float64 // [0.05] probability that the race ever eliminates a best arm
	MinBlocks int     // [2] blocks before the first elimination
	MaxBlocks int     // [24] blocks after which the race ends
	Keep      int     // [0] the race ends when this many arms beside the control are left
	Tie       float64 // [0] log-ratio within which arms are as good: ends a race of ties
	Controls  int     // [0] times that a block runs the control, 0 for about the root of the number of arms
	Seed      uint64
}

func (o RaceOptions) withDefaults() RaceOptions {
	if o.Alpha == 0 {
		o.Alpha = 0.05
	}
	o.MinBlocks = max(o.MinBlocks, 2)
	if o.MaxBlocks == 0 {
		o.MaxBlocks = 24
	}
	return o
}

// Standing is an arm's place in a race. Score is its log-speedup over the control; Out is the block
// after which it was eliminated, 0 while alive.
type Standing struct {
	Arm     int
	Score   stat.Interval
	Out     int
	Failure string
}

// Race eliminates arms over paired blocks. Arm 0 is the control: it runs in every block and is never
// eliminated. An arm goes when the confidence sequence of its paired log-ratio to the leader says
// that it is slower, at Alpha shared out between the arms (Bonferroni).
type Race struct {
	o       RaceOptions
	n       int
	log     [][]float64 // [block][arm] ln cost, NaN where not measured
	timings [][]int     // [block][arm], nil for one each
	out     []int
	failure []string
	dropped int
	orders  *stat.Orders
	alive   []int // as of the current orders
	settled bool
}

// NewRace starts a race of n arms, the control included.
func NewRace(n int, o RaceOptions) *Race {
	r := &Race{o: o.withDefaults(), n: n, out: make([]int, n), failure: make([]string, n)}
	r.reorder()
	return r
}

func (r *Race) reorder() {
	r.alive = r.alive[:0]
	for a := range r.n {
		if a == 0 || r.out[a] == 0 && r.failure[a] == "" {
			r.alive = append(r.alive, a)
		}
	}
	r.orders = stat.NewOrders(len(r.alive), r.o.Seed+uint64(len(r.log)+r.dropped))
}

// Next is the order of the next block: the arms still alive, balanced for position and carry-over.
// The control comes as often as controlsOf says, spread over the block from its own place on, and never
// twice in a row, not from the end of the block to its beginning either: following itself it would find
// in the caches what it left there, and look faster than it is.
func (r *Race) Next() []int {
	order := r.orders.Next()
	n := len(order) - 1
	controls := controlsOf(n, r.o.Controls)
	place := slices.Index(order, 0)
	before := make([]bool, n+1) // the arm of an index comes a control
	before[place] = true
	for i := 1; i < controls; i++ {
		before[(place+i*n/controls)%n] = true
	}
	out := make([]int, 0, n+controls)
	for i, x := range append(slices.Delete(order, place, place+1), 0) {
		if before[i] {
			out = append(out, 0)
		}
		if x != 0 {
			out = append(out, r.alive[x])
		}
	}
	return out
}

// controlsOf is how often a block of n arms runs the control: as asked, else about as often as the root
// of their number, since it is what all of them are compared with (Dunnett 1955); no more often than there
// are arms to stand between.
func controlsOf(n, asked int) int {
	if asked == 0 {
		asked = int(math.Round(math.Sqrt(float64(n))))
	}
	return max(1, min(asked, n))
}

// Alive lists the arms still in the race, the control first.
func (r *Race) Alive() []int { return append([]int(nil), r.alive...) }

// Kept returns how many of the blocks seen counted.
func (r *Race) Kept() (kept, of int) { return len(r.log), len(r.log) + r.dropped }

// Add takes a block. Costs that are not positive and finite count as not measured; a block that is
// disturbed or lacks the control counts for nobody; a failed arm leaves the race.
func (r *Race) Add(b Block) {
	failed := false
	for a, why := range b.Failures {
		if a > 0 && a < r.n && r.failure[a] == "" {
			r.failure[a], failed = why, true
		}
	}
	row := make([]float64, r.n)
	for a := range row {
		row[a] = math.NaN()
		if a < len(b.Costs) && b.Costs[a] > 0 && !math.IsInf(b.Costs[a], 0) {
			row[a] = math.Log(b.Costs[a])
		}
	}
	if b.Disturbed != "" || math.IsNaN(row[0]) {
		r.dropped++
	} else {
		r.log, r.timings = append(r.log, row), append(r.timings, b.Samples)
	}
	if r.eliminate() || failed {
		r.reorder()
	}
}

// results are what the race says of all arms but the control, in their order.
func (r *Race) results(arms []kernel.Config) []Result {
	out := make([]Result, 0, len(arms)-1)
	for a := 1; a < len(arms); a++ {
		out = append(out, r.result(a, arms[a]))
	}
	return out
}

// result is what the race says of an arm.
func (r *Race) result(a int, c kernel.Config) Result {
	out := Result{Config: c, Failure: r.failure[a]}
	for i, row := range r.log {
		d := row[0] - row[a]
		if math.IsNaN(d) {
			continue
		}
		out.Score += d
		out.Blocks++
		arm, control := 1, 1
		if n := r.timings[i]; len(n) == r.n {
			arm, control = max(n[a], 1), max(n[0], 1)
		}
		out.Samples, out.Control = out.Samples+arm, out.Control+control
	}
	out.Score /= float64(out.Blocks)
	return out
}

// paired returns ln(cost a / cost b) over the blocks that measured both.
func (r *Race) paired(a, b int) []float64 {
	out := make([]float64, 0, len(r.log))
	for _, row := range r.log {
		if d := row[a] - row[b]; !math.IsNaN(d) {
			out = append(out, d)
		}
	}
	return out
}

// eliminate drops the arms that the leader beats and reports whether any went.
func (r *Race) eliminate() bool {
	if len(r.log) < r.o.MinBlocks {
		return false
	}
	lead := r.leader()
	went, undecided := false, 0
	alpha := r.o.Alpha / float64(max(r.n-1, 1))
	for _, a := range r.alive {
		if a == lead || r.failure[a] != "" {
			continue
		}
		s := stat.Sequence(r.paired(a, lead), alpha)
		switch {
		case a > 0 && s.Lo > 0:
			r.out[a], went = len(r.log), true
		case s.Lo < -r.o.Tie || s.Hi > r.o.Tie:
			if a > 0 || s.Lo <= 0 {
				undecided++
			}
		}
	}
	r.settled = undecided == 0
	return went
}

// leader is the alive arm of the best mean score.
func (r *Race) leader() int {
	best, lead := math.Inf(-1), 0
	for _, a := range r.alive {
		if r.failure[a] != "" {
			continue
		}
		if s := stat.Mean(r.paired(0, a)); s > best {
			best, lead = s, a
		}
	}
	return lead
}

// Done reports whether the race is decided or at its last block.
func (r *Race) Done() bool {
	kept, of := r.Kept()
	return kept >= r.o.MaxBlocks || of >= 3*r.o.MaxBlocks || len(r.alive) <= 1 ||
		kept >= r.o.MinBlocks && (len(r.alive)-1 <= r.o.Keep || r.settled)
}

// Standings lists every arm but the control, by index, with its score over the control at 95%.
func (r *Race) Standings() []Standing {
	var out []Standing
	for a := 1; a < r.n; a++ {
		out = append(out, Standing{a, stat.Sequence(r.paired(0, a), r.o.Alpha), r.out[a], r.failure[a]})
	}
	return out
}
