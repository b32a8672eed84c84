package stat

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is an estimate with a two-sided confidence interval. Without enough data Lo and Hi are
// infinite.
type Interval struct {
	Center float64
	Lo, Hi float64
	N      int
}

// Half is half the width of the interval.
func (i Interval) Half() float64 { return (i.Hi - i.Lo) / 2 }

// Contains reports whether x lies in the closed interval.
func (i Interval) Contains(x float64) bool { return i.Lo <= x && x <= i.Hi }

// Exp maps an interval of log-ratios to one of ratios.
func (i Interval) Exp() Interval {
	return Interval{math.Exp(i.Center), math.Exp(i.Lo), math.Exp(i.Hi), i.N}
}

func unbounded(center float64, n int) Interval {
	return Interval{center, math.Inf(-1), math.Inf(1), n}
}

// Estimate is the estimator in use everywhere: the Hodges-Lehmann pseudo-median (the median of all
// pairwise means), which a minority of wild values does not move and which needs only 5% more
// samples than the mean where noise is Gaussian.
func Estimate(xs []float64) float64 { return sortedQuantileOrNaN(walsh(xs), 0.5) }

func sortedQuantileOrNaN(s []float64, q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return sortedQuantile(s, q)
}

// walsh returns the sorted averages (x_i+x_j)/2, i <= j.
func walsh(xs []float64) []float64 {
	w := make([]float64, 0, len(xs)*(len(xs)+1)/2)
	for i, x := range xs {
		for _, y := range xs[i:] {
			w = append(w, (x+y)/2)
		}
	}
	slices.Sort(w)
	return w
}

// CI is the confidence interval of the centre of paired log-ratios. From the number of values at
// which the exact signed-rank test can reach conf (6 at 95%, 8 at 99%) it is that test inverted
// (Hollander and Wolfe, 3.3); below, Student's t around the mean, widened to hold the estimate.
func CI(xs []float64, conf float64) Interval {
	n := len(xs)
	if n == 0 || !finite(xs) {
		return unbounded(math.NaN(), n)
	}
	w := walsh(xs)
	center := sortedQuantile(w, 0.5)
	if n < 2 {
		return unbounded(center, n)
	}
	if c := signedRankCut(n, (1-conf)/2); c > 0 {
		return Interval{center, w[c-1], w[len(w)-c], n}
	}
	m := Mean(xs)
	half := StudentT(n-1, conf) * SD(xs) / math.Sqrt(float64(n))
	return Interval{center, min(m-half, center), max(m+half, center), n}
}

// StudentT is the two-sided critical value of Student's t with nu degrees of freedom.
func StudentT(nu int, conf float64) float64 {
	return memo(&criticalT, nu, conf, func() float64 {
		return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(nu)}.Quantile(0.5 + conf/2)
	})
}

// criticalT and rankCuts remember what took long to compute: simulations ask for the same few values
// by the million.
var criticalT, rankCuts sync.Map

func memo[V any](m *sync.Map, n int, x float64, compute func() V) V {
	type key struct {
		n int
		x float64
	}
	if v, ok := m.Load(key{n, x}); ok {
		return v.(V)
	}
	v := compute()
	m.Store(key{n, x}, v)
	return v
}

// exactSignedRank bounds the exact computation; above it the normal approximation is good to the
// rank.
const exactSignedRank = 60

// signedRankCut returns the largest c with P(W < c) <= tail under the null of the signed-rank
// statistic W of n values, 0 if there is none: the interval then runs from the c-th smallest to
// the c-th largest Walsh average.
func signedRankCut(n int, tail float64) int {
	total := n * (n + 1) / 2
	if n > exactSignedRank {
		z := distuv.UnitNormal.Quantile(1 - tail)
		sd := math.Sqrt(float64(total) * float64(2*n+1) / 12)
		return max(int(float64(total)/2-z*sd), 1)
	}
	return memo(&rankCuts, n, tail, func() int { return exactCut(n, tail) })
}

// exactCut adds the ranks one at a time: p[w] = P(W = w).
func exactCut(n int, tail float64) int {
	total := n * (n + 1) / 2
	p := make([]float64, total+1)
	p[0] = 1
	for r := 1; r <= n; r++ {
		for w := total; w >= 0; w-- {
			p[w] /= 2
			if w >= r {
				p[w] += p[w-r] / 2
			}
		}
	}
	var cum float64
	for w := range p {
		if cum += p[w]; cum > tail {
			return w
		}
	}
	return 0
}

// MedianCI is the median with the distribution-free interval of order statistics: the tightest
// symmetric pair whose binomial coverage is at least conf, unbounded below the number of values
// that can give it (6 at 95%).
func MedianCI(xs []float64, conf float64) Interval {
	n := len(xs)
	if n == 0 || !finite(xs) {
		return unbounded(math.NaN(), n)
	}
	s := slices.Sorted(slices.Values(xs))
	out := unbounded(sortedQuantile(s, 0.5), n)
	b := distuv.Binomial{N: float64(n), P: 0.5}
	for k := 1; k <= n/2; k++ {
		if b.CDF(float64(k-1)) > (1-conf)/2 {
			break
		}
		out.Lo, out.Hi = s[k-1], s[n-k]
	}
	return out
}
