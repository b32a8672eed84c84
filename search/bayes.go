package search

import (
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// bayes is Thompson sampling with a linear model of the log-speedup (Agrawal and Goyal 2013): main
// effects of every value of every parameter and a product of the positions of every pair. Each
// proposal maximises one draw from the posterior, so that a batch is as diverse as the model is
// unsure. All scores of a batch share the error of its control: the batch is a random effect. What
// the model does not explain of a configuration counts as far as the configuration was repeated.
type bayes struct {
	*memory
	limit   int
	at      []int       // first main effect of each parameter, and past the last
	place   [][]float64 // of each value in its list, from -1 to 1
	def     point
	batches [][]observation
	sums    sums
	model   *posterior // of all that was told, nil until it is needed
	last    *posterior // of what was told before
}

type observation struct {
	p      point
	key    string
	y      float64
	blocks float64
}

const (
	bayesAgain   = 4    // a batch holds one repeat of the best to this many candidates
	bayesSettled = 12   // blocks after which a configuration is not repeated
	bayesMain    = 0.1  // prior standard deviation of a main effect
	bayesPair    = 0.05 // and of an interaction
	bayesNoise   = 0.05 // of a block, before there are data
	bayesNear    = 3    // one proposal of this many is a neighbour of one of
	bayesLeaders = 4    // this many leaders
	bayesStarts  = 3    // ascents for each proposal
	bayesPasses  = 3    // over all parameters in an ascent
)

// NewBayes proposes up to limit configurations, the default first.
func NewBayes(s kernel.Space, seed uint64, limit, blocks int) (Strategy, error) {
	m, err := newMemory(s, seed, blocks)
	if err != nil {
		return nil, err
	}
	b := &bayes{memory: m, limit: limit, def: m.locate(s.Default())}
	n := 0
	for _, p := range s.Params {
		b.at = append(b.at, n)
		n += len(p.Values)
		place := make([]float64, len(p.Values))
		for v := range place {
			if len(place) > 1 {
				place[v] = 2*float64(v)/float64(len(place)-1) - 1
			}
		}
		b.place = append(b.place, place)
	}
	b.at = append(b.at, n)
	return b, nil
}

func (b *bayes) Name() string { return "bayes" }
func (b *bayes) Done() bool   { return b.limit <= 0 }

func (b *bayes) Ask(n int) []Candidate {
	b.fit()
	var again []Candidate
	for _, r := range b.Best(3 * n / bayesAgain) {
		if len(again) < n/bayesAgain && r.Blocks < bayesSettled && r.Score > 0 {
			again = append(again, Candidate{r.Config, b.blocks})
		}
	}
	n = min(n-len(again), b.limit)
	out := b.propose(b.locate(b.space.Default()), nil)
	for i := 0; len(out) < n && b.model != nil && i < 2*n; i++ {
		p := b.near()
		if i%bayesNear != 0 || p == nil {
			p = b.climb(b.model.draw(b.rng))
		}
		if p == nil {
			break
		}
		out = b.propose(p, out)
	}
	out = b.fresh(n-len(out), out, b.random)
	if b.limit -= len(out); len(out) == 0 {
		b.limit = 0 // the space is used up
	}
	return append(out, again...)
}

// near is a neighbour of one of the leaders: it finds what the model has no term for.
func (b *bayes) near() point {
	top := b.Best(bayesLeaders)
	if len(top) == 0 {
		return nil
	}
	return b.mutate(b.locate(top[b.rng.IntN(len(top))].Config))
}

// Tell remembers a batch.
func (b *bayes) Tell(rs []Result) {
	b.memory.Tell(rs)
	b.model = nil
	var batch []observation
	for _, r := range rs {
		if r.usable() && r.Blocks < known && b.space.Check(r.Config) == nil {
			p := b.locate(r.Config)
			batch = append(batch, observation{p, p.key(), r.Score, float64(r.Blocks)})
		}
	}
	if len(batch) > 0 {
		b.learn(batch)
		b.batches = append(b.batches, batch)
	}
}

// Best lists the best by what is known of them all: the model, and their own data as far as it goes.
func (b *bayes) Best(k int) []Result {
	b.fit()
	if b.model == nil {
		return b.memory.Best(k)
	}
	return b.ranked(k, func(key string, r *Result) float64 {
		if r.Blocks >= known {
			return r.Score
		}
		return b.estimate(key)
	})
}

// estimate is the posterior mean of a measured configuration: what the model expects, and of its own
// residue as much as its repetitions make sure of.
func (b *bayes) estimate(key string) float64 {
	own := b.model.own[key]
	return own.expected + own.sum/(own.n+b.model.noise/b.model.spread)
}

// features writes the features of p less those of the default, so that the default's value is 0.
func (b *bayes) features(p point, x []float64) {
	clear(x)
	for i, v := range p {
		x[b.at[i]+v]++
		x[b.at[i]+b.def[i]]--
	}
	k := b.at[len(p)]
	for i := range p {
		for j := range i {
			x[k] = b.place[i][p[i]]*b.place[j][p[j]] - b.place[i][b.def[i]]*b.place[j][b.def[j]]
			k++
		}
	}
}

// value is w times the features of p.
func (b *bayes) value(w []float64, p point) float64 { return b.raw(w, p) - b.raw(w, b.def) }

func (b *bayes) raw(w []float64, p point) float64 {
	var s float64
	pairs := w[b.at[len(p)]:]
	for i, v := range p {
		s += w[b.at[i]+v]
		var t float64
		for j := range i {
			t += pairs[j] * b.place[j][p[j]]
		}
		s += t * b.place[i][v]
		pairs = pairs[i:]
	}
	return s
}

// climb returns the best unseen member that coordinate ascents under the weights w come across.
func (b *bayes) climb(w []float64) point {
	var best point
	top := math.Inf(-1)
	seen := func(p point, v float64) {
		if v > top && !b.asked[p.key()] {
			best, top = slices.Clone(p), v
		}
	}
	for range bayesStarts {
		p := b.random()
		if p == nil {
			return nil
		}
		at := b.raw(w, p)
		seen(p, at)
		for range bayesPasses {
			moved := false
			for _, i := range b.rng.Perm(len(p)) {
				was, keep := p[i], p[i]
				for v := range b.space.Params[i].Values {
					if p[i] = v; v == was || !b.allows(p) {
						continue
					}
					x := b.raw(w, p)
					seen(p, x)
					if x > at {
						at, keep, moved = x, v, true
					}
				}
				p[i] = keep
			}
			if !moved {
				break
			}
		}
	}
	return best
}
