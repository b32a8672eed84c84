package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
)

// posterior is what a bayes strategy knows: weights N(mean, (L L')^-1) and the residues.
type posterior struct {
	mean   []float64
	chol   []float64 // L, lower, row-major
	noise  float64   // variance of a block
	spread float64   // variance of configurations around the model
	sure   bool      // the noise rests on data
	own    map[string]residue
}

// residue is what the model expects of a configuration, and the sum of what it leaves over n blocks.
type residue struct{ expected, sum, n float64 }

// sums are the normal equations of all batches, without the prior.
type sums struct{ xx, xy []float64 }

// fit computes the posterior once after each Tell, at the noise that the residues of the last one
// had.
func (b *bayes) fit() {
	if b.model != nil || len(b.batches) == 0 {
		return
	}
	noise := bayesNoise * bayesNoise
	if b.last != nil {
		noise = b.last.noise + b.last.spread
	}
	m := b.solve(noise)
	all := b.residues(m)
	for _, r := range all {
		own := m.own[r.key]
		own.expected = r.expected
		own.sum += r.blocks * r.left
		own.n += r.blocks
		m.own[r.key] = own
	}
	m.spreads(all, len(b.space.Params))
	b.model, b.last = m, m
}

// spreads estimates the noise of a block from repeated measurements, and from the rest of the
// residues how far configurations are from the model.
func (m *posterior) spreads(rs []residual, params int) {
	var all, again []float64 // |residue|, |difference| / sqrt 2
	first := make(map[string]float64, len(m.own))
	for _, r := range rs {
		x := r.left * math.Sqrt(r.blocks)
		all = append(all, math.Abs(x))
		if was, ok := first[r.key]; ok {
			again = append(again, math.Abs(x-was)/math.Sqrt2)
		} else {
			first[r.key] = x
		}
	}
	if len(all) < 2*params {
		return
	}
	n, d := float64(len(all)), float64(len(m.mean))
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

// residual is an observation, what the model expects of it, and what that and the effect of its
// batch leave.
type residual struct {
	observation
	expected, left float64
}

// residues lists all observations as the model sees them.
func (b *bayes) residues(m *posterior) []residual {
	var out []residual
	for _, batch := range b.batches {
		var sum, n float64
		first := len(out)
		for _, o := range batch {
			own, known := m.own[o.key]
			if !known {
				own.expected = b.value(m.mean, o.p)
				m.own[o.key] = own
			}
			out = append(out, residual{o, own.expected, o.y - own.expected})
			sum += (o.y - own.expected) * o.blocks
			n += o.blocks
		}
		effect := sum / (n + 1) // the control's own error is as large as a candidate's
		for i := first; i < len(out); i++ {
			out[i].left -= effect
		}
	}
	return out
}

// learn adds a batch to the normal equations. Values that the model so far misses by more than three
// deviations are pulled in: timings have tails.
func (b *bayes) learn(batch []observation) {
	d := b.at[len(b.space.Params)] + len(b.space.Params)*(len(b.space.Params)-1)/2
	if b.sums.xx == nil {
		b.sums = sums{make([]float64, d*d), make([]float64, d)}
	}
	if b.last != nil && b.last.sure {
		b.pull(batch)
	}
	xs, mean := make([]float64, d*len(batch)), make([]float64, d)
	var my, n float64
	for _, o := range batch {
		n += o.blocks
	}
	for i, o := range batch {
		x := xs[i*d : (i+1)*d]
		b.features(o.p, x)
		for k, v := range x {
			mean[k] += o.blocks * v / n
		}
		my += o.blocks * o.y / n
	}
	theta := 1 - 1/math.Sqrt(1+n) // quasi-demeaning of a random effect (Wooldridge 2010, 10.4)
	for i, o := range batch {
		x := xs[i*d : (i+1)*d]
		for k := range x {
			x[k] -= theta * mean[k]
		}
		accumulate(b.sums.xx, b.sums.xy, x, o.y-theta*my, o.blocks)
	}
}

// pull moves values that are far from what the model expects of their batch.
func (b *bayes) pull(batch []observation) {
	var rs []float64
	for _, o := range batch {
		rs = append(rs, o.y-b.value(b.last.mean, o.p))
	}
	level, clip := stat.Median(rs), 3*math.Sqrt(b.last.noise+b.last.spread)
	for i, r := range rs {
		batch[i].y -= (r - level) - max(-clip, min(clip, r-level))
	}
}

// solve computes the posterior at a noise variance.
func (b *bayes) solve(noise float64) *posterior {
	a, d := slices.Clone(b.sums.xx), len(b.sums.xy)
	for i := range d {
		prior := bayesMain
		if i >= b.at[len(b.space.Params)] {
			prior = bayesPair
		}
		a[i*d+i] += noise / (prior * prior)
	}
	m := &posterior{chol: a, noise: noise / 2, spread: noise / 2, own: map[string]residue{}}
	cholesky(a, d)
	m.mean = solveUpper(a, solveLower(a, b.sums.xy))
	return m
}

// draw is a sample of the weights.
func (m *posterior) draw(rng *rand.Rand) []float64 {
	z := make([]float64, len(m.mean))
	for i := range z {
		z[i] = math.Sqrt(m.noise+m.spread) * rng.NormFloat64()
	}
	z = solveUpper(m.chol, z)
	for i := range z {
		z[i] += m.mean[i]
	}
	return z
}

// accumulate adds w x x' to the lower half of a, and w y x to rhs.
func accumulate(a, rhs, x []float64, y, w float64) {
	d := len(x)
	for i, v := range x {
		if v == 0 {
			continue
		}
		rhs[i] += w * y * v
		row := a[i*d : i*d+i+1]
		for k := range row {
			row[k] += w * v * x[k]
		}
	}
}

// cholesky replaces the lower half of a positive definite matrix by its factor.
func cholesky(a []float64, d int) {
	for j := range d {
		rj := a[j*d : j*d+j]
		s := a[j*d+j]
		for _, v := range rj {
			s -= v * v
		}
		s = math.Sqrt(max(s, 1e-12))
		a[j*d+j] = s
		for i := j + 1; i < d; i++ {
			ri := a[i*d : i*d+j]
			t := a[i*d+j]
			for k, v := range rj {
				t -= v * ri[k]
			}
			a[i*d+j] = t / s
		}
	}
}

// solveLower solves L x = b, solveUpper L' x = b.
func solveLower(l, b []float64) []float64 {
	d := len(b)
	x := make([]float64, d)
	for i := range d {
		s := b[i]
		for k, v := range l[i*d : i*d+i] {
			s -= v * x[k]
		}
		x[i] = s / l[i*d+i]
	}
	return x
}

func solveUpper(l, b []float64) []float64 {
	d := len(b)
	x := append([]float64(nil), b...)
	for i := d - 1; i >= 0; i-- {
		x[i] /= l[i*d+i]
		for k, v := range l[i*d : i*d+i] {
			x[k] -= v * x[i]
		}
	}
	return x
}
