package sim

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// Landscape is a space with a known true cost of every member.
type Landscape struct {
	Space   kernel.Space
	Members []kernel.Config
	costs   map[int64]float64 // by id
	Best    float64           // least cost in the space
}

// Cost is the true cost of a member.
func (l *Landscape) Cost(c kernel.Config) float64 { return l.costs[l.id(c)] }

// id tells members apart: value indices in a mixed radix, from 1.
func (l *Landscape) id(c kernel.Config) int64 {
	id := int64(1)
	for _, p := range l.Space.Params {
		id = id*int64(len(p.Values)) + int64(slices.Index(p.Values, c[p.Name]))
	}
	return id
}

// DefaultCost is the true cost of the default.
func (l *Landscape) DefaultCost() float64 { return l.Cost(l.Space.Default()) }

// space resembles that of a register-tiled kernel: six parameters, 28 accumulators at most.
func space() kernel.Space {
	return kernel.Space{Version: "sim/1", Params: []kernel.Param{
		{Name: "mr", Values: []int64{1, 2, 4, 6, 8, 12}, Default: 1},
		{Name: "nr", Values: []int64{1, 2, 3, 4}, Default: 1},
		{Name: "streams", Values: []int64{1, 2, 4, 8}, Default: 1},
		{Name: "prefetch", Values: []int64{0, 256, 1024, 4096}, Default: 0},
		{Name: "unroll", Values: []int64{1, 2, 4}, Default: 1},
		{Name: "panel", Values: []int64{0, 1}, Default: 0},
	}, Constraints: []kernel.Constraint{
		{Doc: "accumulators and operands fit the registers", Terms: [][]string{{"mr", "nr"}, {"nr"}}, Max: 30},
		{Doc: "streams of a tile", Terms: [][]string{{"nr", "streams"}}, Max: 16},
	}}
}

// interact is the size of pairwise interactions beside main effects.
const interact = 0.35

// NewLandscape draws multiplicative main effects and pairwise interactions of the space's
// parameters and scales them so that the worst member costs spread times the best. The default is
// the member at quantile rank of cost (0: the best, so that every winner is false).
func NewLandscape(seed uint64, spread, rank float64) *Landscape {
	rng := rand.New(rand.NewPCG(seed, 0x1a4d))
	l := &Landscape{Space: space(), costs: map[int64]float64{}}
	effects := drawEffects(rng, l.Space)
	var logs []float64
	if err := search.Enumerate(l.Space, func(c kernel.Config) bool {
		l.Members = append(l.Members, c)
		logs = append(logs, effects(c))
		return true
	}); err != nil {
		panic(err) // the space above is valid
	}
	lo, hi := slices.Min(logs), slices.Max(logs)
	type ranked struct {
		cost float64
		c    kernel.Config
	}
	var all []ranked
	for i, c := range l.Members {
		cost := math.Exp((logs[i] - lo) / (hi - lo) * math.Log(spread))
		l.costs[l.id(c)] = cost
		all = append(all, ranked{cost, c})
	}
	l.Best = 1
	slices.SortStableFunc(all, func(a, b ranked) int {
		if a.cost < b.cost {
			return -1
		}
		return 1
	})
	def := all[int(rank*float64(len(all)-1))].c
	for i := range l.Space.Params {
		l.Space.Params[i].Default = def[l.Space.Params[i].Name]
	}
	return l
}

// drawEffects returns the unscaled log-cost: for each parameter a bowl over its value index with a
// random bottom and a little roughness, and for each pair a random product of slopes.
func drawEffects(rng *rand.Rand, s kernel.Space) func(kernel.Config) float64 {
	n := len(s.Params)
	main := make([][]float64, n)
	slope, weight := make([]float64, n*n), make([]float64, n)
	for i, p := range s.Params {
		weight[i] = 0.3 + rng.ExpFloat64()
		bottom := rng.Float64() * float64(len(p.Values)-1)
		for v := range p.Values {
			x := (float64(v) - bottom) / float64(len(p.Values))
			main[i] = append(main[i], weight[i]*(x*x*3+0.15*rng.NormFloat64()))
		}
		for k := range i {
			slope[i*n+k] = interact * rng.NormFloat64() * math.Sqrt(weight[i]*weight[k])
		}
	}
	return func(c kernel.Config) float64 {
		var sum float64
		x := make([]float64, n)
		for i, p := range s.Params {
			v := slices.Index(p.Values, c[p.Name])
			x[i] = float64(v)/float64(len(p.Values)-1) - 0.5
			sum += main[i][v]
			for k := range i {
				sum += 4 * slope[i*n+k] * x[i] * x[k]
			}
		}
		return sum
	}
}
