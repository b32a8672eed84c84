package search

import (
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// bayes is Thompson sampling with a linear model of the log-speedup (Agrawal and Goyal 2013): main
// effects of every value of every parameter, alike for neighbouring values, and a product of the
// positions of every pair. Each proposal maximises one draw from the posterior, so that a batch is as
// diverse as the model is unsure. All scores of a batch share the error of its control: the batch is
// a random effect. What the model does not explain of a configuration counts as far as the
// configuration was repeated.
type bayes struct {
	*memory
	*surface
	limit int
	def   point
	arms  []arm          // measured, first told first
	armOf []int          // of each in the order of what was told, -1 for none
	slot  map[uint64]int // of an arm, by point.key
	seen  [][]observation
	told  int // observations
	fresh int // of them since the model was fitted
	sums  sums
	model *posterior // nil until there are data

	draws   *table // scratch
	ascents ascent
}

// arm is a configuration that was measured: what the model expects of it, and the sum of what that
// leaves over n blocks.
type arm struct {
	p        point
	key      uint64
	expected float64
	sum, n   float64
}

type observation struct {
	slot   int
	y      float64
	blocks float64
}

const (
	bayesAgain   = 3    // a batch holds one repeat of the best to this many candidates
	bayesSettled = 12   // blocks after which a configuration is not repeated
	bayesNear    = 3    // one proposal of this many is a neighbour of one of
	bayesLeaders = 4    // this many leaders
	bayesStarts  = 2    // ascents for each proposal
	bayesPasses  = 2    // over all parameters in an ascent
	bayesStale   = 0.15 // share of the observations that may be newer than the model
)

// NewBayes proposes up to limit configurations, the default first.
func NewBayes(s kernel.Space, seed uint64, limit, blocks int) (Strategy, error) {
	m, err := newMemory(s, seed, blocks)
	if err != nil {
		return nil, err
	}
	b := &bayes{memory: m, surface: newSurface(s), limit: limit, def: m.locate(s.Default()), slot: map[uint64]int{}}
	b.sums = newSums(b.dim)
	b.draws, b.ascents = b.newTable(), newAscent(len(s.Params))
	return b, nil
}

func (b *bayes) Name() string { return "bayes" }
func (b *bayes) Done() bool   { return b.limit <= 0 }

func (b *bayes) Ask(n int) []Candidate {
	if b.model == nil || float64(b.fresh) > bayesStale*float64(b.told) {
		b.fit()
	}
	top := b.leaders(max(3*n/bayesAgain, bayesLeaders))
	var again []Candidate
	for _, e := range top[:min(len(top), 3*n/bayesAgain)] {
		if r := b.order[e.told]; len(again) < n/bayesAgain && r.Blocks < bayesSettled && e.score > 0 {
			again = append(again, Candidate{r.Config, b.blocks})
		}
	}
	n = min(n-len(again), b.limit)
	out := b.propose(b.locate(b.space.Default()), nil)
	for i := 0; len(out) < n && b.model != nil && i < 2*n; i++ {
		var p point
		if i%bayesNear == 0 {
			p = b.near(top)
		}
		if p == nil {
			b.tabulate(b.model.draw(b.rng), b.draws)
			p = b.climb(b.draws)
		}
		if p == nil {
			break
		}
		out = b.propose(p, out)
	}
	out = b.memory.fresh(n-len(out), out, b.random)
	if b.limit -= len(out); len(out) == 0 {
		b.limit = 0 // the space is used up
	}
	return append(out, again...)
}

// near is a neighbour of one of the leaders: it finds what the model has no term for.
func (b *bayes) near(top []ranking) point {
	if len(top) == 0 {
		return nil
	}
	r := b.order[top[b.rng.IntN(min(bayesLeaders, len(top)))].told]
	return b.mutate(b.locate(r.Config))
}

// Tell remembers a batch.
func (b *bayes) Tell(rs []Result) {
	b.memory.Tell(rs)
	var batch []observation
	for _, r := range rs {
		if !r.usable() || r.Blocks >= known || b.space.Check(r.Config) != nil {
			continue
		}
		p := b.locate(r.Config)
		key := p.key()
		at, ok := b.slot[key]
		if !ok {
			at = len(b.arms)
			b.slot[key] = at
			b.arms = append(b.arms, arm{p: p, key: key})
			if b.model != nil {
				b.arms[at].expected = b.value(b.model.table, p)
			}
		}
		batch = append(batch, observation{at, r.Score, float64(r.Blocks)})
	}
	if len(batch) == 0 {
		return
	}
	b.learn(batch)
	b.seen = append(b.seen, batch)
	b.told += len(batch)
	b.fresh += len(batch)
	if b.model != nil {
		b.credit(batch)
	}
}

// Best lists the best by what is known of them all: the model, and their own data as far as it goes.
func (b *bayes) Best(k int) []Result {
	if b.fresh > 0 {
		b.fit()
	}
	top := b.leaders(k)
	out := make([]Result, len(top))
	for i, e := range top {
		out[i] = *b.order[e.told]
		out[i].Score = e.score
	}
	return out
}

// leaders are the k best.
func (b *bayes) leaders(k int) []ranking {
	top := make([]ranking, 0, min(k, len(b.order)))
	for i, r := range b.order {
		if !r.usable() {
			continue
		}
		score := r.Score
		if at := b.armAt(i); at >= 0 && b.model != nil && r.Blocks < known {
			score = b.estimate(&b.arms[at])
		}
		top = place(top, k, ranking{score, i})
	}
	return top
}

// armAt is the arm of what was told at a place in the order, -1 if it was not measured.
func (b *bayes) armAt(i int) int {
	for k := len(b.armOf); k <= i; k++ {
		b.armOf = append(b.armOf, -1)
	}
	if b.armOf[i] < 0 {
		if at, ok := b.slot[b.locate(b.order[i].Config).key()]; ok {
			b.armOf[i] = at
		}
	}
	return b.armOf[i]
}

// Estimate is the posterior mean of a measured configuration.
func (b *bayes) Estimate(c kernel.Config) (float64, bool) {
	if b.fresh > 0 {
		b.fit()
	}
	at, ok := b.slot[b.locate(c).key()]
	if !ok {
		return 0, false
	}
	return b.estimate(&b.arms[at]), true
}

// estimate is the posterior mean of a measured configuration: what the model expects, and of its own
// residue as much as its repetitions make sure of.
func (b *bayes) estimate(a *arm) float64 {
	return a.expected + a.sum/(a.n+b.model.noise/b.model.spread)
}

// ascent is the scratch of climb.
type ascent struct {
	p, best point
	slope   []float64 // of each parameter, by its place, as the others are
	turn    []int
}

func newAscent(n int) ascent {
	return ascent{make(point, n), make(point, n), make([]float64, n), make([]int, n)}
}

// climb returns the best unseen member that coordinate ascents over the values of a table come across.
func (b *bayes) climb(t *table) point {
	a := &b.ascents
	top := math.Inf(-1)
	for range bayesStarts {
		if !b.sampleInto(a.p) {
			return nil
		}
		at := b.enter(t, a)
		if at > top && !b.asked[a.p.key()] {
			top = at
			copy(a.best, a.p)
		}
		for range bayesPasses {
			moved := false
			for i := range a.turn {
				k := b.rng.IntN(i + 1)
				a.turn[i], a.turn[k] = a.turn[k], i
			}
			for _, i := range a.turn {
				at, top, moved = b.ascend(t, a, i, at, top, moved)
			}
			if !moved {
				break
			}
		}
	}
	if math.IsInf(top, -1) {
		return nil
	}
	return slices.Clone(a.best)
}

// enter computes the slopes at a point and returns its value.
func (b *bayes) enter(t *table, a *ascent) float64 {
	at, n := 0.0, len(a.p)
	for i, v := range a.p {
		s := 0.0
		for k, u := range a.p {
			s += t.pair[i*n+k] * b.place[k][u]
		}
		a.slope[i] = s
		at += t.main[i][v] + s*b.place[i][v]/2
	}
	return at
}

// ascend moves parameter i to its best allowed value, and remembers unseen members on the way.
func (b *bayes) ascend(t *table, a *ascent, i int, at, top float64, moved bool) (float64, float64, bool) {
	was, keep, n := a.p[i], a.p[i], len(a.p)
	base, slope := at-t.main[i][was]-a.slope[i]*b.place[i][was], a.slope[i]
	for v, m := range t.main[i] {
		x := base + m + slope*b.place[i][v]
		if v == was || x <= at && x <= top {
			continue
		}
		if a.p[i] = v; !b.moves(a.p, i) {
			continue
		}
		if x > top && !b.asked[a.p.key()] {
			top = x
			copy(a.best, a.p)
		}
		if x > at {
			at, keep, moved = x, v, true
		}
	}
	a.p[i] = keep
	if d := b.place[i][keep] - b.place[i][was]; d != 0 {
		for k := range n {
			a.slope[k] += t.pair[k*n+i] * d
		}
	}
	return at, top, moved
}
