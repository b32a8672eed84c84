package search

import "math"

// scales are the prior standard deviations of a main effect and of an interaction.
type scales struct{ main, pair float64 }

// factor is L L' = X'X + noise/scales^2, the normal equations with a prior.
type factor struct {
	scales
	l     []float64 // lower, row-major
	rest  []float64 // what the main effects leave of the interactions, before their prior
	half  []float64 // L^-1 X'y
	score float64   // log of the marginal likelihood of the data, but for a constant
	mains int
}

func newFactor(d, mains int) *factor {
	n := d - mains
	return &factor{l: make([]float64, d*d), rest: make([]float64, n*n), half: make([]float64, d), mains: mains}
}

// compute factors the equations at a noise variance and prior scales.
func (f *factor) compute(s *sums, noise float64, sc scales) {
	d, m := len(f.half), f.mains
	for i := range d {
		copy(f.l[i*d:i*d+i+1], s.xx[i*d:i*d+i+1])
		if i < m {
			f.l[i*d+i] += noise / (sc.main * sc.main)
		}
	}
	cholesky(f.l, d, m)
	for i := m; i < d; i++ {
		row, rest := f.l[i*d:i*d+i+1], f.rest[(i-m)*(d-m):]
		j := m
		for ; j+2 <= i+1; j += 2 {
			s, t := dot2(f.l[j*d:j*d+m], f.l[(j+1)*d:], row)
			rest[j-m], rest[j-m+1] = row[j]-s, row[j+1]-t
		}
		if j <= i {
			rest[j-m] = row[j] - dot(row[:m], f.l[j*d:])
		}
	}
	f.main = sc.main
	f.finish(s, noise, sc.pair)
}

// again is compute at another scale of the interactions than of: all else is the same.
func (f *factor) again(of *factor, s *sums, noise, pair float64) {
	copy(f.l, of.l)
	copy(f.rest, of.rest)
	f.main = of.main
	f.finish(s, noise, pair)
}

// finish factors the interactions and scores the whole (Bishop 2006, 3.86).
func (f *factor) finish(s *sums, noise, pair float64) {
	d, m := len(f.half), f.mains
	n := d - m
	f.pair = pair
	low := f.l[m*d:]
	for i := range n {
		copy(low[i*d+m:i*d+m+i+1], f.rest[i*n:i*n+i+1])
		low[i*d+m+i] += noise / (pair * pair)
	}
	cholesky(low[min(m, len(low)):], d, n)
	copy(f.half, s.xy)
	solveLower(f.l, f.half)
	fit, det, logDet := 0.0, 1.0, 0.0
	for i, x := range f.half {
		fit += x * x
		if det *= f.l[i*d+i]; det > 1e100 || det < 1e-100 {
			logDet, det = logDet+math.Log(det), 1
		}
	}
	prior := float64(m)*math.Log(noise/(f.main*f.main)) + float64(n)*math.Log(noise/(pair*pair))
	f.score = prior/2 - logDet - math.Log(det) - (s.yy-fit)/(2*noise)
}

// Prior scales move by a factor at a time, within bounds, while the data are few enough for them to
// matter.
const (
	scaleStep = 1.6
	scaleLow  = 0.004
	scaleHigh = 1.0
	scaleData = 3 // observations a feature after which the scales stay
)

// rescale factors the equations, and moves the scales of the prior to neighbours that explain the data
// better.
func (b *bayes) rescale(m *posterior, noise float64) {
	m.factor.compute(&b.sums, noise, m.factor.scales)
	if b.sums.n > float64(scaleData*b.dim) {
		return
	}
	better := func() bool {
		if m.spare.score <= m.factor.score {
			return false
		}
		m.factor, m.spare = m.spare, m.factor
		return true
	}
	for _, step := range []float64{scaleStep, 1 / scaleStep} {
		sc := scales{m.factor.main * step, m.factor.pair}
		if sc.main < scaleLow || sc.main > scaleHigh {
			continue
		}
		if m.spare.compute(&b.sums, noise, sc); better() {
			break
		}
	}
	for _, step := range []float64{scaleStep, 1 / scaleStep} {
		pair := m.factor.pair * step
		if pair < scaleLow || pair > scaleHigh {
			continue
		}
		if m.spare.again(m.factor, &b.sums, noise, pair); better() {
			break
		}
	}
}
