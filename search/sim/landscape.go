package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// Landscape is a space with a known true cost of every member.
type Landscape struct {
	Space   kernel.Space
	Members []kernel.Config // shared by all landscapes of a family: not to be changed
	domain  *domain
	costs   []float64 // by id
	def     float64
	Best    float64 // least cost in the space
}

// Cost is the true cost of a member.
func (l *Landscape) Cost(c kernel.Config) float64 { return l.costs[l.domain.id(c)] }

// DefaultCost is the true cost of the default.
func (l *Landscape) DefaultCost() float64 { return l.def }

// Family is a kind of landscape: a space, and how the unscaled log-costs of its members are drawn.
type Family struct {
	Name   string
	domain *domain
	draw   func(rng *rand.Rand, s kernel.Space) func(at []int) float64
	rough  float64 // size of a member's own residue, which no model of the parameters explains
}

// Smooth is the family that the strategies are tuned on.
var Smooth = Family{"smooth", newDomain(base), drawEffects, 0.05}

// domain is a space with its members listed once.
type domain struct {
	space   kernel.Space
	members func() ([]member, []kernel.Config)
	size    int // of the ids
}

// member is a configuration, its id and its value indices.
type member struct {
	c  kernel.Config
	id int
	at []int
}

func newDomain(s kernel.Space) *domain {
	d := &domain{space: s, size: 1}
	for _, p := range s.Params {
		d.size *= len(p.Values)
	}
	d.members = sync.OnceValues(d.list)
	return d
}

// id tells members apart: value indices in a mixed radix.
func (d *domain) id(c kernel.Config) int {
	id := 0
	for i := range d.space.Params {
		p := &d.space.Params[i]
		id = id*len(p.Values) + slices.Index(p.Values, c[p.Name])
	}
	return id
}

func (d *domain) list() ([]member, []kernel.Config) {
	var ms []member
	var cs []kernel.Config
	if err := search.Enumerate(d.space, func(c kernel.Config) bool {
		m := member{c: c, id: d.id(c)}
		for _, p := range d.space.Params {
			m.at = append(m.at, slices.Index(p.Values, c[p.Name]))
		}
		ms, cs = append(ms, m), append(cs, c)
		return true
	}); err != nil {
		panic(err) // the spaces here are valid
	}
	return ms, cs
}

// base resembles the space of a register-tiled kernel: eight parameters, 30 registers at most.
var base = kernel.Space{Version: "sim/2", Params: []kernel.Param{
	{Name: "mr", Values: []int64{1, 2, 3, 4, 6, 8}, Default: 1},
	{Name: "nr", Values: []int64{1, 2, 3, 4}, Default: 1},
	{Name: "streams", Values: []int64{1, 2, 4, 8}, Default: 1},
	{Name: "prefetch", Values: []int64{0, 512, 1024, 2048, 4096}, Default: 0},
	{Name: "hint", Values: []int64{0, 1, 2}, Default: 0},
	{Name: "unroll", Values: []int64{1, 2, 4}, Default: 1},
	{Name: "panel", Values: []int64{0, 1}, Default: 0},
	{Name: "chunk", Values: []int64{0, 1, 4}, Default: 0},
}, Constraints: []kernel.Constraint{
	{Doc: "accumulators and operands fit the registers", Terms: [][]string{{"mr", "nr"}, {"nr"}}, Max: 15},
	{Doc: "streams of a tile", Terms: [][]string{{"nr", "streams"}}, Max: 8},
	{Doc: "a panel is walked alone", Terms: [][]string{{"panel", "streams"}}, Max: 1},
}}

// parameters of base by index; hint acts only where something is prefetched.
const parPrefetch, parHint = 3, 4

// interact is the size of pairwise interactions beside main effects, before scaling.
const interact = 0.35

// NewLandscape draws a landscape of a family and scales it so that the worst member costs spread times
// the best. The default is the member at quantile rank of cost (0: the best, so that every winner is
// false).
func NewLandscape(f Family, seed uint64, spread, rank float64) *Landscape {
	rng := rand.New(rand.NewPCG(seed, 0x1a4d))
	d := f.domain
	ms, cs := d.members()
	effects := f.draw(rng, d.space)
	logs := make([]float64, len(ms))
	l := &Landscape{Space: d.space, Members: cs, domain: d, costs: make([]float64, d.size)}
	for i, m := range ms {
		logs[i] = effects(m.at) + f.rough*rng.NormFloat64()
	}
	lo, hi := slices.Min(logs), slices.Max(logs)
	for i, m := range ms {
		l.costs[m.id] = math.Exp((logs[i] - lo) / (hi - lo) * math.Log(spread))
	}
	order := slices.Sorted(slices.Values(logs))
	def := ms[slices.Index(logs, order[int(rank*float64(len(order)-1))])]
	l.Best, l.def = 1, l.costs[def.id]
	l.Space.Params = slices.Clone(d.space.Params)
	for i := range l.Space.Params {
		l.Space.Params[i].Default = def.c[l.Space.Params[i].Name]
	}
	return l
}

// drawEffects returns the unscaled log-cost of value indices: for each parameter a bowl over its
// value index with a random bottom and a little roughness, and for each pair a random product of
// slopes.
func drawEffects(rng *rand.Rand, s kernel.Space) func([]int) float64 {
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
	return func(at []int) float64 {
		var sum float64
		var x [16]float64
		for i, v := range at {
			if i == parHint && at[parPrefetch] == 0 {
				continue
			}
			x[i] = float64(v)/float64(len(s.Params[i].Values)-1) - 0.5
			sum += main[i][v]
			for k := range i {
				sum += 4 * slope[i*n+k] * x[i] * x[k]
			}
		}
		return sum
	}
}
