// Package stat holds the statistics of the judge: plain functions over numbers, no clocks and no
// global randomness. Samples are paired log-ratios unless a function says otherwise; a ratio of two
// rates or times is exp of what is returned.
package stat

import (
	"math"
	"slices"
)

// Mean is the arithmetic mean, NaN for no values.
func Mean(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s / float64(len(xs))
}

// SD is the sample standard deviation (n-1), 0 for fewer than two values.
func SD(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	m := Mean(xs)
	var s float64
	for _, x := range xs {
		s += (x - m) * (x - m)
	}
	return math.Sqrt(s / float64(len(xs)-1))
}

// Median is the middle value, the mean of the middle two of an even number, NaN for no values.
func Median(xs []float64) float64 {
	if len(xs) < selectFrom || !finite(xs) {
		return Quantile(xs, 0.5)
	}
	s := slices.Clone(xs)
	i := (len(s) - 1) / 2
	low := nth(s, i)
	if len(s)%2 == 1 {
		return low
	}
	return low + 0.5*(slices.Min(s[i+1:])-low)
}

// selectFrom is the number of values from which on selecting beats sorting.
const selectFrom = 32

// nth moves the k-th smallest value to place k, none greater before it and none smaller behind, and
// returns it (Hoare 1961).
func nth(s []float64, k int) float64 {
	lo, hi := 0, len(s)-1
	for lo < hi {
		pivot := s[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for s[j] > pivot {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return s[k]
		}
	}
	return s[k]
}

// Quantile interpolates linearly between order statistics (Hyndman and Fan, type 7); NaN for no
// values.
func Quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	return sortedQuantile(s, q)
}

func sortedQuantile(s []float64, q float64) float64 {
	pos := q * float64(len(s)-1)
	i := int(pos)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (pos-float64(i))*(s[i+1]-s[i])
}

// LogRatios returns ln(a/b) of each pair, positive where a is greater. The slices are paired by
// index and equally long.
func LogRatios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = math.Log(a[i] / b[i])
	}
	return out
}

// finite reports whether every value is a finite number.
func finite(xs []float64) bool {
	return !slices.ContainsFunc(xs, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}
