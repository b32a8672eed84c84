package stat

import (
	"math"
	"slices"
)

// Sequence is a confidence sequence of the centre of paired log-ratios: its interval may be looked
// at after every block and acted on at once, and still misses the truth in a whole race with
// probability at most alpha. Two are run at alpha/2 each and intersected: one from the t test,
// narrow where noise is Gaussian, one from signs, which no tail can fool. Noise must be symmetric
// about the centre, as the ratio of two exchangeable arms is.
func Sequence(xs []float64, alpha float64) Interval {
	t, s := tSequence(xs, alpha/2), signSequence(xs, alpha/2)
	out := Interval{t.Center, max(t.Lo, s.Lo), min(t.Hi, s.Hi), len(xs)}
	if out.Lo > out.Hi { // the two disagree: claim no more than either does
		out.Lo, out.Hi = min(t.Lo, s.Lo), max(t.Hi, s.Hi)
	}
	return out
}

// effectVar is the prior variance of the effect in units of the noise: racing arms differ by
// several sigma.
const effectVar = 10

// tSequence inverts the Bayes factor of the one-sample t test with a normal prior on the effect size
// (Rouder et al. 2009) and the right-Haar prior on the scale, a test martingale whatever the
// variance (Wang and Ramdas 2023): t^2/nu >= (L-1)/(1-L/r), r = 1+n*g, L = (sqrt(r)/alpha)^(2/n).
func tSequence(xs []float64, alpha float64) Interval {
	n := float64(len(xs))
	m := Mean(xs)
	if len(xs) < 2 || !finite(xs) {
		return unbounded(m, len(xs))
	}
	r := 1 + n*effectVar
	l := math.Pow(math.Sqrt(r)/alpha, 2/n)
	if l >= r {
		return unbounded(m, len(xs))
	}
	half := SD(xs) / math.Sqrt(n) * math.Sqrt((n-1)*(l-1)/(1-l/r))
	return Interval{m, m - half, m + half, len(xs)}
}

// signSequence inverts the sign test's mixture martingale: under the null each sign is a fair coin,
// and betting with a uniform prior on its bias makes 2^n * B(k+1, n-k+1) a martingale, so that it
// passes 1/alpha with probability at most alpha (Howard and Ramdas 2022).
func signSequence(xs []float64, alpha float64) Interval {
	n := len(xs)
	if n == 0 || !finite(xs) {
		return unbounded(math.NaN(), n)
	}
	s := slices.Sorted(slices.Values(xs))
	out := unbounded(sortedQuantile(s, 0.5), n)
	for k := range n / 2 { // k values below the candidate centre
		if float64(n)*math.Ln2+logBeta(float64(k+1), float64(n-k+1)) < -math.Log(alpha) {
			break
		}
		out.Lo, out.Hi = s[k], s[n-1-k]
	}
	return out
}

func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}
