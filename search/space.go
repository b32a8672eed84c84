package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/tilewright/tilewright/kernel"
)

// point is a configuration as indices into the values of each parameter.
type point []int

// term is a product of parameters: coef times the product of the values of params.
type term struct {
	coef   int64
	params []int
}

type bound struct {
	terms []term
	max   int64
}

// grid is a space compiled for enumeration: constraints over indices, with a lower bound of each
// term while some of its parameters are open.
type grid struct {
	space  kernel.Space
	bounds []bound
	low    []int64   // smallest value of each parameter
	mix    []uint64  // factor of each parameter in a key
	of     [][]bound // those that each parameter is in
	prune  bool      // lower bounds hold: no value and no coefficient is negative
}

func newGrid(s kernel.Space) (*grid, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	g := &grid{space: s, prune: true, low: make([]int64, len(s.Params)), mix: make([]uint64, len(s.Params))}
	rng := rand.New(rand.NewPCG(uint64(len(s.Params)), 0x6b79))
	index := make(map[string]int, len(s.Params))
	for i, p := range s.Params {
		index[p.Name] = i
		g.mix[i] = rng.Uint64() | 1
		g.low[i] = p.Values[0]
		for _, v := range p.Values {
			g.low[i] = min(g.low[i], v)
		}
		g.prune = g.prune && g.low[i] >= 0
	}
	for _, c := range s.Constraints {
		b := bound{max: c.Max}
		for _, names := range c.Terms {
			t := term{coef: 1}
			for _, n := range names {
				if i, ok := index[n]; ok {
					t.params = append(t.params, i)
					continue
				}
				lit, err := strconv.ParseInt(n, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("search: constraint %q: %q is neither a parameter nor an integer", c.Doc, n)
				}
				t.coef *= lit
			}
			g.prune = g.prune && t.coef >= 0
			b.terms = append(b.terms, t)
		}
		g.bounds = append(g.bounds, b)
	}
	g.of = make([][]bound, len(s.Params))
	for i := range s.Params {
		for _, b := range g.bounds {
			if slices.ContainsFunc(b.terms, func(t term) bool { return slices.Contains(t.params, i) }) {
				g.of[i] = append(g.of[i], b)
			}
		}
	}
	return g, nil
}

const open = -1 // the index of a parameter that has no value yet

// key identifies a point: a hash of 64 bits, linear in the indices, which no two points of a search share.
func (g *grid) key(p point) uint64 {
	h := uint64(0)
	for i, v := range p {
		h += uint64(v) * g.mix[i]
	}
	return h
}

// allows reports whether p, whose open parameters are -1, may still become a member.
func (g *grid) allows(p point) bool { return g.within(p, g.bounds) }

// moves reports whether p, a member but for parameter i, is a member.
func (g *grid) moves(p point, i int) bool { return g.within(p, g.of[i]) }

func (g *grid) within(p point, bounds []bound) bool {
	for _, b := range bounds {
		var sum int64
		whole := true
		for _, t := range b.terms {
			prod := t.coef
			for _, i := range t.params {
				if p[i] == open {
					whole = false
					prod *= g.low[i]
				} else {
					prod *= g.space.Params[i].Values[p[i]]
				}
			}
			sum += prod
		}
		if sum > b.max && (whole || g.prune) {
			return false
		}
	}
	return true
}

func (g *grid) config(p point) kernel.Config {
	c := make(kernel.Config, len(p))
	for i, v := range p {
		c[g.space.Params[i].Name] = g.space.Params[i].Values[v]
	}
	return c
}

// locate is the inverse of config for a member of the space.
func (g *grid) locate(c kernel.Config) point {
	p := make(point, len(g.space.Params))
	for i, par := range g.space.Params {
		for j, v := range par.Values {
			if v == c[par.Name] {
				p[i] = j
				break
			}
		}
	}
	return p
}

// find makes p the member that c is and reports whether it is one.
func (g *grid) find(c kernel.Config, p point) bool {
	if len(c) != len(p) {
		return false
	}
	for i := range g.space.Params {
		par := &g.space.Params[i]
		v, ok := c[par.Name]
		if p[i] = slices.Index(par.Values, v); !ok || p[i] < 0 {
			return false
		}
	}
	return g.allows(p)
}

// walk visits the completions of p (open parameters filled) depth first, in the order of values that
// rank gives for each parameter, cutting off branches that no completion can save; it stops when
// visit returns false.
func (g *grid) walk(p point, rank func(param int) []int, visit func(point) bool) bool {
	i := 0
	for i < len(p) && p[i] != open {
		i++
	}
	if !g.allows(p) {
		return true
	}
	if i == len(p) {
		return visit(p)
	}
	for _, v := range rank(i) {
		p[i] = v
		if !g.walk(p, rank, visit) {
			return false
		}
	}
	p[i] = open
	return true
}

// tries is how often sampling rejects before it repairs.
const tries = 64

// sample draws a member: uniformly by rejection, else by repairing a random point, so that a space
// whose members are rare still yields one.
func (g *grid) sample(rng *rand.Rand) point {
	p := make(point, len(g.space.Params))
	if g.draw(rng, p) {
		return p
	}
	if q := g.repair(p, rng.IntN(len(p))); q != nil {
		return q
	}
	return g.repair(p, -1)
}

// draw makes p a member, uniformly by rejection, and reports whether it found one.
func (g *grid) draw(rng *rand.Rand, p point) bool {
	for range tries {
		for i, par := range g.space.Params {
			p[i] = rng.IntN(len(par.Values))
		}
		if g.allows(p) {
			return true
		}
	}
	return false
}

// repair returns a member near p that keeps parameter keep, or any if keep is -1: the other values change as little as the
// constraints demand, later parameters first. nil if there is none.
func (g *grid) repair(p point, keep int) point {
	q := make(point, len(p))
	for i := range q {
		q[i] = open
	}
	if keep >= 0 {
		q[keep] = p[keep]
	}
	nearest := func(i int) []int { return nearestFirst(p[i], len(g.space.Params[i].Values)) }
	if g.walk(q, nearest, func(point) bool { return false }) {
		return nil
	}
	return q
}

// nearestFirst lists 0..n-1 by distance from v, the lower first.
func nearestFirst(v, n int) []int {
	out := append(make([]int, 0, n), v)
	for d := 1; len(out) < n; d++ {
		if v-d >= 0 {
			out = append(out, v-d)
		}
		if v+d < n {
			out = append(out, v+d)
		}
	}
	return out
}

// Enumerate calls visit with every member of the space in lexical order of parameter values until
// it returns false. Members are found with pruning, so that a tight constraint over many parameters
// costs little.
func Enumerate(s kernel.Space, visit func(kernel.Config) bool) error {
	g, err := newGrid(s)
	if err != nil {
		return err
	}
	g.each(func(p point) bool { return visit(g.config(p)) })
	return nil
}

func (g *grid) each(visit func(point) bool) {
	p := make(point, len(g.space.Params))
	ranks := make([][]int, len(p))
	for i, par := range g.space.Params {
		p[i] = open
		ranks[i] = nearestFirst(0, len(par.Values))
	}
	g.walk(p, func(i int) []int { return ranks[i] }, visit)
}
