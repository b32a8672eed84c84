package search

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// tpe is the tree-structured Parzen estimator (Bergstra et al. 2011) over ordered discrete
// parameters: the measured configurations are split into the good and the rest, each side gives a
// smoothed distribution of every parameter's value, and of many draws from the good ones the one
// with the greatest likelihood ratio is proposed.
type tpe struct {
	*memory
	limit   int
	kernels [][][]float64 // [parameter][value index]: weight over the parameter's values
}

const (
	tpeStart   = 16   // random members before the model is asked
	tpeDraws   = 32   // draws from the good side for each proposal
	tpeGood    = 0.15 // share of the measured that is good
	tpePrior   = 1.0  // weight of the uniform prior, in configurations
	tpeSpread  = 0.6  // standard deviation of the kernel, in steps of the value list
	tpeAgain   = 4    // a batch holds one repeat of the best to this many candidates
	tpeSettled = 8    // blocks after which a configuration is not repeated
	tpeBlend   = 0.1  // share of proposals drawn at random, so that nothing is shut out
)

// NewTPE proposes up to limit configurations, the default first.
func NewTPE(s kernel.Space, seed uint64, limit, blocks int) (Strategy, error) {
	m, err := newMemory(s, seed, blocks)
	if err != nil {
		return nil, err
	}
	t := &tpe{memory: m, limit: limit}
	for _, par := range s.Params {
		var ks [][]float64
		for at := range par.Values {
			ks = append(ks, parzenKernel(at, len(par.Values)))
		}
		t.kernels = append(t.kernels, ks)
	}
	return t, nil
}

func (t *tpe) Name() string { return "tpe" }
func (t *tpe) Done() bool   { return t.limit <= 0 }

func (t *tpe) Ask(n int) []Candidate {
	again := t.again(n / tpeAgain)
	n = min(n-len(again), t.limit)
	out := t.propose(t.locate(t.space.Default()), nil)
	best := t.Best(len(t.order))
	draw := t.random
	if len(best) >= tpeStart {
		good, ratio := t.model(best)
		draw = func() point {
			if t.rng.Float64() < tpeBlend {
				return t.random()
			}
			return t.draw(good, ratio)
		}
	} else {
		n = min(n, max(tpeStart-len(t.asked), 1))
	}
	out = t.fresh(n-len(out), out, draw)
	if t.limit -= len(out); len(out) == 0 {
		t.limit = 0 // the space is used up
	}
	return append(out, again...)
}

// again proposes up to n of the best once more while they rest on few blocks: what leads after one
// look leads partly by luck.
func (t *tpe) again(n int) []Candidate {
	var out []Candidate
	for _, r := range t.Best(3 * n) {
		if len(out) < n && r.Blocks < tpeSettled {
			out = append(out, Candidate{r.Config, t.blocks})
		}
	}
	return out
}

// model gives, for every value of every parameter, its probability among the good and the log of
// its likelihood ratio to the rest.
func (t *tpe) model(best []Result) (good, ratio [][]float64) {
	k := max(4, int(math.Ceil(tpeGood*float64(len(best)))))
	good, ratio = t.parzen(best[:k]), t.parzen(best[k:])
	for i := range ratio {
		for v := range ratio[i] {
			ratio[i][v] = math.Log(good[i][v] / ratio[i][v])
		}
	}
	return good, ratio
}

func (t *tpe) parzen(rs []Result) [][]float64 {
	out := make([][]float64, len(t.space.Params))
	for i, par := range t.space.Params {
		out[i] = make([]float64, len(par.Values))
		for v := range out[i] {
			out[i][v] = tpePrior / float64(len(par.Values))
		}
	}
	for _, r := range rs {
		for i, at := range t.locate(r.Config) {
			for v, x := range t.kernels[i][at] {
				out[i][v] += x
			}
		}
	}
	for _, w := range out {
		for v := range w {
			w[v] /= tpePrior + float64(len(rs))
		}
	}
	return out
}

// parzenKernel is a unit of weight over n values, spread around index at by a discrete Gaussian.
func parzenKernel(at, n int) []float64 {
	w, total := make([]float64, n), 0.0
	for v := range w {
		d := float64(v-at) / tpeSpread
		w[v] = math.Exp(-d * d / 2)
		total += w[v]
	}
	for v := range w {
		w[v] /= total
	}
	return w
}

// draw returns the draw from the good side with the greatest ratio of likelihoods that was not asked
// yet, nil if none is new.
func (t *tpe) draw(good, ratio [][]float64) point {
	var best point
	top := math.Inf(-1)
	for range tpeDraws {
		p := make(point, len(good))
		for i, w := range good {
			p[i] = pick(w, t.rng.Float64())
		}
		if !t.allows(p) {
			if p = t.repair(p, t.rng.IntN(len(p))); p == nil {
				continue
			}
		}
		score := 0.0
		for i, v := range p {
			score += ratio[i][v]
		}
		if score > top && !t.asked[t.key(p)] {
			best, top = p, score
		}
	}
	return best
}

// pick returns the index at which the cumulative weight passes u.
func pick(w []float64, u float64) int {
	for i, x := range w {
		if u -= x; u < 0 {
			return i
		}
	}
	return len(w) - 1
}
