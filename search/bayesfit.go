package search

import (
	"math"
	"math/rand/v2"

	"github.com/tilewright/tilewright/search/stat"
)

// posterior is what a bayes strategy knows: weights N(mean, (noise+spread) (L L')^-1), and how far
// measurements and configurations lie from them.
type posterior struct {
	mean   []float64
	noise  float64 // variance of a block
	spread float64 // variance of configurations around the model
	sure   bool    // the noise rests on data
	factor *factor
	spare  *factor   // scratch of rescale
	weight []float64 // scratch of draw
}

// Before there are data.
const (
	bayesMain  = 0.1
	bayesPair  = 0.05
	bayesNoise = 0.05 // standard deviation of a block
)

// bayesClip is where values are pulled in, in deviations from what the model expects: early models miss
// by much that is no noise.
const bayesClip = 4

// sums are the normal equations of all batches, without the prior.
type sums struct {
	xx, xy []float64
	yy, n  float64
	rows   []float64 // scratch
	mean   []float64
}

func newSums(d int) sums {
	return sums{xx: make([]float64, d*d), xy: make([]float64, d), mean: make([]float64, d)}
}

// fit computes the posterior of all that was told, at the noise that the residues of the last one had
// and at prior scales that explain the data better than their neighbours.
func (b *bayes) fit() {
	if b.told == 0 {
		return
	}
	m := b.model
	if m == nil {
		m = &posterior{noise: bayesNoise * bayesNoise, mean: make([]float64, b.dim), weight: make([]float64, b.dim),
			factor: newFactor(b.dim, b.mains), spare: newFactor(b.dim, b.mains)}
		m.factor.scales = scales{bayesMain, bayesPair}
		b.model = m
	}
	noise := m.noise + m.spread
	b.rescale(m, noise)
	copy(m.mean, m.factor.half)
	solveUpper(m.factor.l, m.mean)
	m.noise, m.spread, m.sure = noise/2, noise/2, false
	for i := range b.arms {
		a := &b.arms[i]
		a.expected, a.sum, a.n = dot(a.x, m.mean), 0, 0
	}
	for _, got := range b.seen {
		b.credit(got)
	}
	b.spreads()
	b.fresh = 0
}

// credit adds what the model leaves of a batch, less the effect of the batch, to its arms.
func (b *bayes) credit(got batch) {
	effect := b.effect(got)
	for _, o := range got.of {
		a := &b.arms[o.arm]
		a.sum += o.n * (o.y - a.expected - effect)
		a.n += o.n
	}
}

// effect is that of a batch: the error of its control.
func (b *bayes) effect(got batch) float64 {
	var sum, n float64
	for _, o := range got.of {
		sum += (o.y - b.arms[o.arm].expected) * o.n
		n += o.n
	}
	return sum / (n + got.control)
}

// spreads estimates the noise of a block from repeated measurements, and from the rest of the
// residues how far configurations are from the model.
func (b *bayes) spreads() {
	if b.told < 2*len(b.space.Params) {
		return
	}
	all, again := make([]float64, 0, b.told), make([]float64, 0, b.told) // |residue|, |difference| / sqrt 2
	first := make([]float64, len(b.arms))
	for i := range first {
		first[i] = math.NaN()
	}
	for _, got := range b.seen {
		effect := b.effect(got)
		for _, o := range got.of {
			x := (o.y - b.arms[o.arm].expected - effect) * math.Sqrt(o.n)
			all = append(all, math.Abs(x))
			if was := first[o.arm]; was == was {
				again = append(again, math.Abs(x-was)/math.Sqrt2)
			} else {
				first[o.arm] = x
			}
		}
	}
	m, n, d := b.model, float64(len(all)), float64(b.dim)
	total := max(robust(all), 1e-4) * math.Sqrt(n/(n-min(d, 2*n/3))) // what the fit took up comes back
	m.noise, m.spread, m.sure = total*total/2, total*total/2, true
	if len(again) >= minAgain {
		m.noise = math.Pow(robust(again), 2)
		m.spread = max(total*total-m.noise, m.noise/30)
	}
}

// minAgain is the number of repeated measurements that tell noise from misfit; before, each is taken
// for half.
const minAgain = 6

// robust is the standard deviation that the median of absolute values stands for.
func robust(abs []float64) float64 { return stat.Median(abs) / 0.6745 }

// learn adds a batch to the normal equations. Values that the model so far misses by more than bayesClip
// deviations are pulled in: timings have tails.
func (b *bayes) learn(got batch) {
	if b.model != nil && b.model.sure {
		b.pull(got.of)
	}
	d, s := b.dim, &b.sums
	if need := (len(got.of) + 3) / 4 * 4 * d; len(s.rows) < need { // square takes four rows at a time
		s.rows = make([]float64, need)
	}
	clear(s.mean)
	var my, n float64
	for _, o := range got.of {
		n += o.n
	}
	for _, o := range got.of {
		for k, v := range b.arms[o.arm].x {
			s.mean[k] += o.n / n * v
		}
		my += o.n * o.y / n
	}
	theta := 1 - 1/math.Sqrt(1+n/got.control) // quasi-demeaning of a random effect (Wooldridge 2010, 10.4)
	for i, o := range got.of {
		s.add(s.rows[i*d:(i+1)*d], b.arms[o.arm].x, theta, o.y-theta*my, o.n)
	}
	s.square(len(got.of), d)
}

// add adds w y (x - theta mean) to xy, and leaves its factor of x times the root of w in row, for square.
func (s *sums) add(row, x []float64, theta, y, w float64) {
	s.yy += w * y * y
	s.n++
	root := math.Sqrt(w)
	y *= root
	mean, xy := s.mean[:len(x)], s.xy[:len(x)]
	row = row[:len(x)]
	for i, v := range x {
		v = root * (v - theta*mean[i])
		xy[i] += y * v
		row[i] = v
	}
}

// square adds x x' of each of n rows to the lower half of xx, four rows at a time.
func (s *sums) square(n, d int) {
	for ; n%4 != 0; n++ {
		clear(s.rows[n*d : (n+1)*d])
	}
	for r := 0; r < n; r += 4 {
		x := s.rows[r*d:]
		x0, x1, x2, x3 := x[:d], x[d:2*d], x[2*d:3*d], x[3*d:4*d]
		for i := range d {
			v0, v1, v2, v3 := x0[i], x1[i], x2[i], x3[i]
			row := s.xx[i*d : i*d+i+1]
			y0, y1, y2, y3 := x0[:len(row)], x1[:len(row)], x2[:len(row)], x3[:len(row)]
			for k := range row {
				row[k] += v0*y0[k] + v1*y1[k] + v2*y2[k] + v3*y3[k]
			}
		}
	}
}

// pull moves values that are far from what the model expects of their batch.
func (b *bayes) pull(batch []observation) {
	rs := make([]float64, len(batch))
	for i, o := range batch {
		rs[i] = o.y - b.arms[o.arm].expected
	}
	level, clip := stat.Median(rs), bayesClip*math.Sqrt(b.model.noise+b.model.spread)
	for i, r := range rs {
		batch[i].y -= (r - level) - max(-clip, min(clip, r-level))
	}
}

// draw is a sample of the weights, valid until the next.
func (m *posterior) draw(rng *rand.Rand) []float64 {
	sd := math.Sqrt(m.noise + m.spread)
	for i := range m.weight {
		m.weight[i] = sd * rng.NormFloat64()
	}
	solveUpper(m.factor.l, m.weight)
	for i, x := range m.mean {
		m.weight[i] += x
	}
	return m.weight
}
