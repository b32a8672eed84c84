package sim

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
)

// Plan is how a tune spends its time: in-situ steps for the screen, then duels of fresh processes.
type Plan struct {
	Name   string
	Steps  int    // of the screen; one serves one block of one search
	Layers int    // samples of a step, dealt over the arms of its block
	AA     int    // pairs of the noise floor
	Floor  [2]int // turns of each run of such a pair, and samples that a turn averages
	Turns  int    // of each process in a duel
	Turn   int    // samples that a turn averages
	Duels  int    // at most
	Margin float64
	Keep   float64 // share of the steps kept for the race of the finalists
	Misfit float64 // lognormal: how far a configuration's cost in the screen's steps is from that in a duel
}

// planned is the number of duels that the noise floor is for.
const planned = 4

// The plans of the report: what a bare tune on two cores affords for one class of weights. Decode
// steps are short; in prefill there is time for 10 passes of 512 tokens, which is 26 of 192: these run
// the same kernels, and rank them alike but for a misfit.
var (
	DecodePlan  = Plan{"decode", 160, 28, 10, [2]int{5, 56}, 16, 56, 8, 0.01, search.FinalShare, 0}
	PrefillPlan = Plan{"prefill", 26, 28, 10, [2]int{3, 28}, 4, 56, 8, 0.01, search.FinalShare, 0.01}
)

// Outcome is what a tune decided and what the truth is. Regrets are ln(cost / least cost in the
// space), in parts that add up to Regret: of the search (the best that was measured), of the
// selection (the pick against the best measured), of the refusal (the choice against the pick).
type Outcome struct {
	Switched  bool // a winner was declared
	False     bool // and is truly no better than the default
	Refused   bool // the noise floor forbade a judgement
	Regret    float64
	Search    float64
	Selection float64
	Refusal   float64
	Samples   int
	Tried     int // configurations
}

// source measures a landscape in situ, within one process.
type source struct {
	*Host
	*Landscape
	layers int
	left   int // steps
	steps  int
	turn   int
	luck   map[int64]float64
	seen   float64 // least true cost measured
	misfit float64
}

func newSource(h *Host, l *Landscape, p Plan) *source {
	return &source{h, l, p.Layers, p.Steps, p.Steps, 0, map[int64]float64{}, l.DefaultCost(), p.Misfit}
}

// arm is the cost of a configuration in this process and its kind of steps.
func (s *source) arm(c kernel.Config) (int64, float64) {
	key := int64(s.domain.id(c)) + 1
	cost := s.costs[key-1]
	if s.luck[key] == 0 {
		s.luck[key] = s.Luck() * math.Exp(s.misfit*s.rng.NormFloat64())
	}
	s.seen = min(s.seen, cost)
	return key, cost * s.luck[key]
}

// Left is the share of the steps that is left.
func (s *source) Left() float64 { return float64(s.left) / float64(s.steps) }

// Measure is one block: as many steps as give every arm a layer.
func (s *source) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	steps := (len(order) + s.layers - 1) / s.layers
	if s.left < steps {
		return search.Block{}, search.ErrBudget
	}
	s.left -= steps
	n := len(arms)
	keys, costs, values := make([]int64, n), make([]float64, n), make([][]float64, n)
	for _, a := range order {
		keys[a], costs[a] = s.arm(arms[a])
	}
	samples := steps * s.layers
	room := samples/len(order) + 2 // of an arm that comes once
	buf := make([]float64, n*room)
	for a := range values {
		values[a] = buf[a*room : a*room : (a+1)*room]
	}
	for i := range samples {
		a := order[s.turn%len(order)]
		s.turn++
		values[a] = append(values[a], math.Log(s.Sample(keys[a], costs[a], i%s.layers)))
	}
	s.turn++ // else a layer would keep its arm
	b := search.Block{Costs: stat.Centres(values), Samples: make([]int, n)}
	for a, x := range b.Costs {
		b.Costs[a] = math.Exp(x) // NaN where there is none
		b.Samples[a] = len(values[a])
	}
	if s.Disturbed() {
		b.Disturbed = "steal"
	}
	return b, nil
}

// turns lets two runs of the given costs take turns, the order reversed each time, and returns the
// log-ratio of their medians, as a duel does and the noise floor, which has one process for both.
func (h *Host) turns(costs [2]float64, first, n, samples int) float64 {
	var v [2][]float64
	for t := range n {
		for k := range 2 {
			a := (first + t + k) % 2
			var sum float64
			for i := range samples {
				sum += h.Sample(0, costs[a], i)
			}
			v[a] = append(v[a], sum/float64(samples))
		}
	}
	return math.Log(stat.Median(v[0]) / stat.Median(v[1]))
}

// floor measures the A/A noise, in one process.
func (h *Host) floor(cost float64, p Plan) float64 {
	var pairs []float64
	for i := range p.AA {
		h.Disturbed()
		x := h.turns([2]float64{cost, cost}, i, p.Floor[0], p.Floor[1])
		if !h.Disturbed() {
			pairs = append(pairs, x)
		}
	}
	n := planned
	if p.Floor[1] < p.Turn { // short passes: up to twice as many of them
		n *= min(max(1, p.Turns*p.Turn/(p.Floor[0]*p.Floor[1])), 2)
	}
	return stat.NoiseFloor(pairs, n, 1)
}

// confirm runs duels of the default and the pick until they are settled, as package session does.
func (h *Host) confirm(def, pick float64, rule stat.Rule, p Plan) bool {
	var gains []float64
	looks, early := stat.Looks{Alpha: 0.05, First: 5, Last: p.Duels}, false
	for i := range p.Duels {
		h.Disturbed()
		x := h.turns([2]float64{def * h.Luck(), pick * h.Luck()}, i, p.Turns, p.Turn)
		if h.Disturbed() {
			continue
		}
		gains = append(gains, x)
		if early = looks.Early(gains, rule.Margin) != stat.GoOn; early {
			break
		}
	}
	rule.Conf = looks.Conf(!early)
	_, why := rule.Decide(gains)
	return why == stat.Clear
}

// Tune is a whole tune as the judge runs it: A/A floor, screen by the strategy and race of its best
// on new data, confirmation in fresh processes on new data, switch past the margin or not at all.
func Tune(h *Host, l *Landscape, s search.Strategy, p Plan) Outcome {
	def := l.Space.Default()
	floor := h.floor(l.DefaultCost(), p)
	if floor > 0.10 {
		return outcome(h, l, l.DefaultCost(), l.DefaultCost(), l.DefaultCost(), true)
	}
	src := newSource(h, l, p)
	// The source of a simulation has no error but a spent budget.
	best, _ := search.Pick(s, def, src, search.RunOptions{Batch: search.Batch(s, p.Steps, p.Layers), Left: src.Left, Keep: p.Keep})
	pick := l.DefaultCost()
	if best != nil {
		pick = l.Cost(best.Config)
	}
	choice := l.DefaultCost()
	if best != nil && h.confirm(choice, pick, stat.Rule{Margin: p.Margin, Floor: floor}, p) {
		choice = pick
	}
	o := outcome(h, l, choice, pick, src.seen, false)
	o.Switched = choice == pick && best != nil
	o.False = o.Switched && pick >= l.DefaultCost()
	o.Tried = len(src.luck)
	return o
}

func outcome(h *Host, l *Landscape, choice, pick, seen float64, refused bool) Outcome {
	return Outcome{Refused: refused, Regret: math.Log(choice / l.Best), Search: math.Log(seen / l.Best),
		Selection: math.Log(pick / seen), Refusal: math.Log(choice / pick), Samples: h.Spent}
}

// BestOf3 is how tuners are usually written: each configuration three times in a row, least time
// counts, whatever is least replaces the default. The same samples as a whole tune of the plan.
func BestOf3(h *Host, l *Landscape, p Plan, seed uint64) Outcome {
	src := newSource(h, l, p)
	least := func(c kernel.Config) float64 {
		key, cost := src.arm(c)
		v := math.Inf(1)
		for i := range 3 {
			v = min(v, src.Sample(key, cost, i))
		}
		return v
	}
	choice := l.Space.Default()
	best := least(choice)
	st, err := search.NewRandom(l.Space, seed, len(l.Members), 1)
	if err != nil {
		return Outcome{Refused: true}
	}
	for _, c := range st.Ask(p.Steps*p.Layers/3 - 1) {
		if v := least(c.Config); v < best {
			choice, best = c.Config, v
		}
	}
	cost := l.Cost(choice)
	o := outcome(h, l, cost, cost, src.seen, false)
	o.Switched = choice.String() != l.Space.Default().String()
	o.False = o.Switched && cost >= l.DefaultCost()
	o.Tried = len(src.luck)
	return o
}
