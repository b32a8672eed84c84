package search

import (
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
	arms  []arm // of what was told, in its order
	seen  []batch
	told  int // observations
	fresh int // of them since the model was fitted
	sums  sums
	model *posterior // nil until there are data

	draws   *table // scratch
	ascents ascent
}

// arm is a configuration that was told: what the model expects of it, and the sum of what that leaves
// over n timings, none of the control or of one that failed.
type arm struct {
	p        point
	x        []float64 // features
	expected float64
	sum, n   float64
}

// batch is what came of one block or race: its observations share the error of the control.
type batch struct {
	of      []observation
	control float64 // timings
}

type observation struct {
	arm int
	y   float64
	n   float64 // timings
}

const (
	bayesAgain   = 3    // a batch holds one repeat of the best to this many candidates
	bayesSettled = 12   // blocks after which a configuration is not repeated
	bayesNear    = 3    // one proposal of this many is a neighbour of one of
	bayesLeaders = 8    // this many leaders
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
	b := &bayes{memory: m, surface: newSurface(s), limit: limit, def: m.locate(s.Default())}
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
	out := b.propose(b.def, nil)
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
	return b.mutate(b.arms[top[b.rng.IntN(min(bayesLeaders, len(top)))].told].p)
}

// Tell remembers a batch.
func (b *bayes) Tell(rs []Result) {
	var got batch
	for _, r := range rs {
		at := b.note(r)
		if at == len(b.arms) {
			a := arm{p: slices.Clone(b.found), x: b.features(b.found)}
			if b.model != nil {
				a.expected = dot(a.x, b.model.mean)
			}
			b.arms = append(b.arms, a)
		}
		if at < 0 || !r.usable() || r.Blocks >= known {
			continue
		}
		got.of = append(got.of, observation{at, r.Score, r.weight()})
		got.control = max(got.control, r.against())
	}
	if len(got.of) == 0 {
		return
	}
	b.learn(got)
	b.seen = append(b.seen, got)
	b.told += len(got.of)
	b.fresh += len(got.of)
	if b.model != nil {
		b.credit(got)
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
		if a := &b.arms[i]; a.n > 0 && r.Blocks < known {
			score = b.estimate(a)
		}
		top = place(top, k, ranking{score, i})
	}
	return top
}

// Estimate is the posterior mean of a measured configuration.
func (b *bayes) Estimate(c kernel.Config) (float64, bool) {
	if b.fresh > 0 {
		b.fit()
	}
	at, ok := b.places[b.key(b.locate(c))]
	if !ok || b.arms[at].n == 0 {
		return 0, false
	}
	return b.estimate(&b.arms[at]), true
}

// estimate is the posterior mean of a measured configuration: what the model expects, and of its own
// residue as much as its repetitions make sure of.
func (b *bayes) estimate(a *arm) float64 {
	return a.expected + a.sum/(a.n+b.model.noise/b.model.spread)
}
