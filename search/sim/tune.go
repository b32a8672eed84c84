package sim

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
)

// Plan is how a tune spends its samples.
type Plan struct {
	Screen    int // samples of the screen
	Batch     int // candidates a block
	Finalists int // best of the screen that race again on new data
	Final     int // blocks of that race at most
	Pairs     int // confirmation pairs in fresh processes
	PerRun    int // samples that one confirmation run averages
	Margin    float64
}

// DefaultPlan is what a tune of one problem can afford on two cores.
var DefaultPlan = Plan{Screen: 900, Batch: search.DefaultBatch, Finalists: 8, Final: 24, Pairs: 6, PerRun: 8, Margin: 0.01}

// Outcome is what a tune decided and what the truth is.
type Outcome struct {
	Switched   bool    // a winner was declared
	False      bool    // and is truly no better than the default
	Refused    bool    // the noise floor forbade a judgement
	Regret     float64 // ln(cost of the choice / least cost in the space)
	RegretSeen float64 // the same against the best configuration that was measured
	Samples    int
}

// source measures a landscape on a host within one process.
type source struct {
	*Host
	*Landscape
	budget int
	luck   map[int64]float64
	seen   float64 // least true cost measured
}

func newSource(h *Host, l *Landscape, budget int) *source {
	return &source{h, l, budget, map[int64]float64{}, l.DefaultCost()}
}

func (s *source) sample(c kernel.Config, position int) float64 {
	key := s.id(c)
	if s.luck[key] == 0 {
		s.luck[key] = s.Luck()
	}
	s.seen = min(s.seen, s.costs[key])
	return s.Sample(key, s.costs[key]*s.luck[key], position)
}

// Measure is one block.
func (s *source) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	if s.budget < len(order) {
		return search.Block{}, search.ErrBudget
	}
	s.budget -= len(order)
	b := search.Block{Costs: make([]float64, len(arms))}
	for i := range b.Costs {
		b.Costs[i] = math.NaN()
	}
	for pos, a := range order {
		b.Costs[a] = s.sample(arms[a], pos)
	}
	if s.Disturbed() {
		b.Disturbed = "steal"
	}
	return b, nil
}

// run is one whole workload in a fresh process: the mean of n samples.
func run(h *Host, l *Landscape, c kernel.Config, n int) float64 {
	h.Settle()
	luck, cost, sum := h.Luck(), l.Cost(c), 0.0
	for i := range n {
		sum += h.Sample(0, cost*luck, i)
		h.Settle() // a step streams all weights: nothing stays hot
	}
	return sum / float64(n)
}

// pairs runs a against b in fresh processes, ABBA, and returns ln(cost a / cost b) of each pair that
// was not disturbed; at most twice n are tried.
func pairs(h *Host, l *Landscape, a, b kernel.Config, n, perRun int) []float64 {
	var out []float64
	for _, order := range stat.ABBA(2 * n) {
		if len(out) == n {
			break
		}
		h.Disturbed()
		var v [2]float64
		for _, i := range order {
			v[i] = run(h, l, [2]kernel.Config{a, b}[i], perRun)
		}
		if !h.Disturbed() {
			out = append(out, math.Log(v[0]/v[1]))
		}
	}
	return out
}

// Tune is a whole tune as the judge runs it: A/A floor, screen by the strategy, race of finalists on
// new data, confirmation in fresh processes on new data, switch past the margin or not at all.
func Tune(h *Host, l *Landscape, s search.Strategy, p Plan) Outcome {
	def := l.Space.Default()
	floor := stat.NoiseFloor(pairs(h, l, def, def, p.Pairs, p.PerRun), p.Pairs, 1)
	if floor > 0.10 {
		return outcome(h, l, def, l.DefaultCost(), true)
	}
	src := newSource(h, l, p.Screen)
	// The source of a simulation has no error but a spent budget.
	_ = search.Run(s, def, src, search.RunOptions{Batch: p.Batch})
	pick := final(newSource(h, l, math.MaxInt), def, s.Best(p.Finalists), p)
	choice := def
	if pick != nil {
		gains := pairs(h, l, def, pick, p.Pairs, p.PerRun)
		if _, why := (stat.Rule{Margin: p.Margin, Floor: floor}).Decide(gains); why == stat.Clear {
			choice = pick
		}
	}
	return outcome(h, l, choice, src.seen, false)
}

// final races the finalists on new data and returns the best, nil if it is the control.
func final(src search.Source, control kernel.Config, best []search.Result, p Plan) kernel.Config {
	arms := []kernel.Config{control}
	for _, r := range best {
		if r.Config.String() != control.String() {
			arms = append(arms, r.Config)
		}
	}
	rs, _ := search.Compete(arms, src, search.RaceOptions{MaxBlocks: p.Final, Keep: 1, Tie: p.Margin / 2})
	var pick kernel.Config
	top := 0.0
	for _, r := range rs {
		if r.Failure == "" && r.Score > top {
			pick, top = r.Config, r.Score
		}
	}
	return pick
}

func outcome(h *Host, l *Landscape, choice kernel.Config, seen float64, refused bool) Outcome {
	cost := l.Cost(choice)
	switched := choice.String() != l.Space.Default().String()
	return Outcome{
		Switched: switched, False: switched && cost >= l.DefaultCost(), Refused: refused,
		Regret: math.Log(cost / l.Best), RegretSeen: math.Log(cost / min(seen, cost)), Samples: h.Spent,
	}
}

// BestOf3 is how tuners are usually written: each configuration three times in a row, least time
// counts, whatever is least replaces the default. The same samples as a whole tune of the plan.
func BestOf3(h *Host, l *Landscape, p Plan, seed uint64) Outcome {
	src := newSource(h, l, 0)
	least := func(c kernel.Config) float64 {
		v := math.Inf(1)
		for i := range 3 {
			v = min(v, src.sample(c, i))
		}
		return v
	}
	choice := l.Space.Default()
	best := least(choice)
	budget := p.Screen + 4*p.Pairs*p.PerRun
	st, err := search.NewRandom(l.Space, seed, len(l.Members), 1)
	if err != nil {
		return Outcome{Refused: true}
	}
	for _, c := range st.Ask(budget/3 - 1) {
		if v := least(c.Config); v < best {
			choice, best = c.Config, v
		}
	}
	return outcome(h, l, choice, src.seen, false)
}
