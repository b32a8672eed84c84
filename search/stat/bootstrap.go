package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// resamples is the number of bootstrap resamples: the 2.5% points then rest on 50 values each.
const resamples = 2000

// Bootstrap is the percentile interval of statistic f over resamples of size n drawn from xs with
// replacement, deterministic by seed. n is len(xs) for the interval of f itself; another n asks what
// f would do at that number of samples.
func Bootstrap(xs []float64, n int, f func([]float64) float64, conf float64, seed uint64) Interval {
	if len(xs) < 2 || n < 1 || !finite(xs) {
		return unbounded(math.NaN(), len(xs))
	}
	draw := make([]float64, n)
	return resample(len(xs), n, f(xs), conf, seed, func(at []int) float64 {
		for j, i := range at {
			draw[j] = xs[i]
		}
		return f(draw)
	})
}

// resample is the percentile interval of f over draws of n places of m.
func resample(m, n int, center, conf float64, seed uint64, f func(at []int) float64) Interval {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	stats, at := make([]float64, resamples), make([]int, n)
	for i := range stats {
		for j := range at {
			at[j] = rng.IntN(m)
		}
		stats[i] = f(at)
	}
	slices.Sort(stats)
	return Interval{center, sortedQuantile(stats, (1-conf)/2), sortedQuantile(stats, (1+conf)/2), m}
}

// bootstrapEstimate is Bootstrap of Estimate. The means of all pairs of xs are sorted once; a resample
// says how often each of them is among its own, and its median is found by counting.
func bootstrapEstimate(xs []float64, n int, conf float64, seed uint64) Interval {
	if len(xs) < 2 || n < 1 || !finite(xs) {
		return unbounded(math.NaN(), len(xs))
	}
	type pair struct {
		mean float64
		i, j int
	}
	var pairs []pair
	for i, x := range xs {
		for j := i; j < len(xs); j++ {
			pairs = append(pairs, pair{(x + xs[j]) / 2, i, j})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.mean, b.mean) })
	times := make([]int, len(xs))
	total := n * (n + 1) / 2
	lower, upper := (total-1)/2, total/2 // ranks of the middle, from 0
	return resample(len(xs), n, Estimate(xs), conf, seed, func(at []int) float64 {
		clear(times)
		for _, i := range at {
			times[i]++
		}
		seen, low := 0, math.NaN()
		for _, p := range pairs {
			k := times[p.i] * times[p.j]
			if p.i == p.j {
				k = k * (times[p.i] + 1) / max(2*times[p.i], 1)
			}
			if was := seen; k > 0 {
				seen += k
				if was <= lower && lower < seen {
					low = p.mean
				}
				if upper < seen {
					return low + 0.5*float64(upper-lower)*(p.mean-low)
				}
			}
		}
		return math.NaN()
	})
}
