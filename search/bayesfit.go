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
	chol   []float64 // L, lower, row-major
	table  *table    // of mean
	noise  float64   // variance of a block
	spread float64   // variance of configurations around the model
	sure   bool      // the noise rests on data
	scale  scales
	solved scales    // that chol is of
	weight []float64 // scratch of draw
}

// scales are the prior standard deviations of a main effect and of an interaction.
type scales struct{ main, pair float64 }

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
	try    []float64
}

func newSums(d int) sums {
	return sums{xx: make([]float64, d*d), xy: make([]float64, d), mean: make([]float64, d), try: make([]float64, d*d)}
}

// fit computes the posterior of all that was told, at the noise that the residues of the last one had
// and at prior scales that explain the data better than their neighbours.
func (b *bayes) fit() {
	if b.told == 0 {
		return
	}
	m := b.model
	if m == nil {
		m = &posterior{noise: bayesNoise * bayesNoise, scale: scales{bayesMain, bayesPair}, table: b.newTable(),
			mean: make([]float64, b.dim), chol: make([]float64, b.dim*b.dim), weight: make([]float64, b.dim)}
		b.model = m
	}
	noise := m.noise + m.spread
	m.solved = scales{}
	b.rescale(m, noise)
	if m.solved != m.scale {
		b.factor(m, noise, m.scale)
	}
	solveUpper(m.chol, m.mean)
	b.tabulate(m.mean, m.table)
	m.noise, m.spread, m.sure = noise/2, noise/2, false
	for i := range b.arms {
		a := &b.arms[i]
		a.expected, a.sum, a.n = b.value(m.table, a.p), 0, 0
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
		a := &b.arms[o.slot]
		a.sum += o.n * (o.y - a.expected - effect)
		a.n += o.n
	}
}

// effect is that of a batch: the error of its control.
func (b *bayes) effect(got batch) float64 {
	var sum, n float64
	for _, o := range got.of {
		sum += (o.y - b.arms[o.slot].expected) * o.n
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
			x := (o.y - b.arms[o.slot].expected - effect) * math.Sqrt(o.n)
			all = append(all, math.Abs(x))
			if was := first[o.slot]; was == was {
				again = append(again, math.Abs(x-was)/math.Sqrt2)
			} else {
				first[o.slot] = x
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
	if need := d * len(got.of); len(s.rows) < need {
		s.rows = make([]float64, need)
	}
	clear(s.mean)
	var my, n float64
	for _, o := range got.of {
		n += o.n
	}
	for i, o := range got.of {
		x := s.rows[i*d : (i+1)*d]
		b.features(b.arms[o.slot].p, x)
		for k, v := range x {
			s.mean[k] += o.n * v / n
		}
		my += o.n * o.y / n
	}
	theta := 1 - 1/math.Sqrt(1+n/got.control) // quasi-demeaning of a random effect (Wooldridge 2010, 10.4)
	for i, o := range got.of {
		x := s.rows[i*d : (i+1)*d]
		for k := range x {
			x[k] -= theta * s.mean[k]
		}
		s.add(x, o.y-theta*my, o.n)
	}
	s.square(len(got.of), d)
}

// add adds w y x to xy, and scales x by the root of w for square.
func (s *sums) add(x []float64, y, w float64) {
	s.yy += w * y * y
	s.n++
	root := math.Sqrt(w)
	for i, v := range x {
		s.xy[i] += w * y * v
		x[i] = root * v
	}
}

// square adds x x' of each of n rows to the lower half of xx, four rows at a time.
func (s *sums) square(n, d int) {
	for ; n%4 != 0; n++ {
		if len(s.rows) < (n+1)*d {
			s.rows = append(s.rows, make([]float64, (n+1)*d-len(s.rows))...)
		}
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
		rs[i] = o.y - b.arms[o.slot].expected
	}
	level, clip := stat.Median(rs), bayesClip*math.Sqrt(b.model.noise+b.model.spread)
	for i, r := range rs {
		batch[i].y -= (r - level) - max(-clip, min(clip, r-level))
	}
}

// factor computes L, and L' times the weights in mean, at a noise variance and prior scales, and returns
// the log of the marginal likelihood of the data (Bishop 2006, 3.86) but for a constant.
func (b *bayes) factor(m *posterior, noise float64, sc scales) float64 {
	d := b.dim
	for i := range d {
		copy(m.chol[i*d:i*d+i+1], b.sums.xx[i*d:i*d+i+1])
	}
	for i := range d {
		s := sc.main
		if i >= b.mains {
			s = sc.pair
		}
		m.chol[i*d+i] += noise / (s * s)
	}
	prior := float64(b.mains)*math.Log(noise/(sc.main*sc.main)) + float64(d-b.mains)*math.Log(noise/(sc.pair*sc.pair))
	cholesky(m.chol, d)
	m.solved = sc
	copy(m.mean, b.sums.xy)
	solveLower(m.chol, m.mean)
	fit, det := 0.0, 1.0
	logDet := 0.0
	for i, x := range m.mean {
		fit += x * x
		if det *= m.chol[i*d+i]; det > 1e100 || det < 1e-100 {
			logDet, det = logDet+math.Log(det), 1
		}
	}
	return prior/2 - logDet - math.Log(det) - (b.sums.yy-fit)/(2*noise)
}

// Prior scales move by a factor at a time, within bounds, while the data are few enough for them to
// matter.
const (
	scaleStep = 1.6
	scaleLow  = 0.004
	scaleHigh = 1.0
	scaleData = 3 // observations a feature after which the scales stay
)

// rescale moves the scales of the prior to neighbours that explain the data better.
func (b *bayes) rescale(m *posterior, noise float64) {
	if b.sums.n > float64(scaleData*b.dim) {
		return
	}
	best := b.factor(m, noise, m.scale)
	try := func(main, pair float64) bool {
		sc := scales{m.scale.main * main, m.scale.pair * pair}
		if min(sc.main, sc.pair) < scaleLow || max(sc.main, sc.pair) > scaleHigh {
			return false
		}
		l := b.factor(m, noise, sc)
		if l > best {
			best, m.scale = l, sc
			return true
		}
		return false
	}
	if !try(scaleStep, 1) {
		try(1/scaleStep, 1)
	}
	if !try(1, scaleStep) {
		try(1, 1/scaleStep)
	}
}

// draw is a sample of the weights, valid until the next.
func (m *posterior) draw(rng *rand.Rand) []float64 {
	sd := math.Sqrt(m.noise + m.spread)
	for i := range m.weight {
		m.weight[i] = sd * rng.NormFloat64()
	}
	solveUpper(m.chol, m.weight)
	for i, x := range m.mean {
		m.weight[i] += x
	}
	return m.weight
}
