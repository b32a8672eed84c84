package stat

import (
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
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	stats, draw := make([]float64, resamples), make([]float64, n)
	for i := range stats {
		for j := range draw {
			draw[j] = xs[rng.IntN(len(xs))]
		}
		stats[i] = f(draw)
	}
	slices.Sort(stats)
	return Interval{f(xs), sortedQuantile(stats, (1-conf)/2), sortedQuantile(stats, (1+conf)/2), len(xs)}
}
