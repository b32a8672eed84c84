package stat

import (
	"math"
	"slices"
)

// huber is where a Centre pulls values in, in standard deviations: it costs 4% of the efficiency of the
// mean where noise is Gaussian (Huber 1981).
const huber = 1.5

// Centres are the centres of groups whose noise has one scale: means of values pulled in to within 1.5
// standard deviations of their group's median. Of a group of one or two it is the mean; NaN of none.
func Centres(groups [][]float64) []float64 {
	out := make([]float64, len(groups))
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	s, rests := make([]float64, 0, n), make([]float64, 0, n)
	for i, g := range groups {
		if len(g) < 3 {
			out[i] = Mean(g)
			continue
		}
		s = append(s[:0], g...)
		slices.Sort(s)
		out[i] = sortedQuantile(s, 0.5)
		// A median takes up a part of the spread, and is itself at no distance in an odd group.
		grow := math.Sqrt(float64(len(g)) / float64(len(g)-1))
		middle := len(g) % 2
		for _, x := range g {
			if x == out[i] && middle > 0 {
				middle--
				continue
			}
			rests = append(rests, math.Abs(x-out[i])*grow)
		}
	}
	if len(rests) < 4 {
		for i, g := range groups {
			out[i] = Mean(g)
		}
		return out
	}
	clip := huber * Median(rests) / 0.6745
	for i, g := range groups {
		if len(g) < 3 {
			continue
		}
		sum := 0.0
		for _, x := range g {
			sum += max(-clip, min(clip, x-out[i]))
		}
		out[i] += sum / float64(len(g))
	}
	return out
}
