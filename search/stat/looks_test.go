package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// falseWinners is the share of comparisons of an arm that gains exactly the margin, no more, that end
// in a winner. looks decides after each pair whether to stop; the verdict is at conf(stopped early).
func falseWinners(noise func(*rand.Rand) float64, stop func([]float64) bool, conf func(early bool) float64) float64 {
	const runs, pairs, margin = 4000, 12, 0.01
	rng := rand.New(rand.NewPCG(7, 7))
	won := 0
	for range runs {
		var gains []float64
		early := false
		for len(gains) < pairs && !early {
			gains = append(gains, math.Log1p(margin)+0.03*noise(rng))
			early = len(gains) < pairs && stop(gains)
		}
		if _, why := (Rule{Margin: margin, Conf: conf(early)}).Decide(gains); why == Clear {
			won++
		}
	}
	return float64(won) / runs
}

// Looking after every pair at a fixed 95% interval makes twice the false winners that 95% promises;
// with the error spent over the looks they stay below it, with light tails and heavy ones.
func TestLooksKeepTheirPromise(t *testing.T) {
	l := Looks{Alpha: 0.05, First: 5, Last: 12}
	for name, noise := range map[string]func(*rand.Rand) float64{
		"normal": (*rand.Rand).NormFloat64,
		"heavy tails": func(r *rand.Rand) float64 { // Student's t, 3 degrees of freedom
			x, y, z := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			return r.NormFloat64() / math.Sqrt((x*x+y*y+z*z)/3)
		},
	} {
		spent := falseWinners(noise, func(g []float64) bool { return l.Early(g, 0.01) != GoOn }, func(early bool) float64 { return l.Conf(!early) })
		fixed := falseWinners(noise, func(g []float64) bool {
			ci := CI(g, 0.95)
			return len(g) >= 5 && (ci.Lo > math.Log1p(0.01) || ci.Hi < math.Log1p(0.01))
		}, func(bool) float64 { return 0.95 })
		t.Logf("%s: %.2f%% false winners with the error spent, %.2f%% with fixed intervals", name, 100*spent, 100*fixed)
		if spent > 0.025 {
			t.Errorf("%s: %.2f%% false winners, at most 2.5%% were promised", name, 100*spent)
		}
		if fixed < 0.025 {
			t.Errorf("%s: fixed intervals make only %.2f%%: the test sets no trap", name, 100*fixed)
		}
	}
}

// What is plainly better still ends early.
func TestLooksEndEarly(t *testing.T) {
	l := Looks{Alpha: 0.05, First: 5, Last: 12}
	better, worse := []float64{0.10, 0.11, 0.09, 0.105, 0.1}, []float64{-0.1, -0.11, -0.09, -0.105, -0.1}
	if l.Early(better, 0.01) != Won || l.Early(worse, 0.01) != Lost {
		t.Error("five pairs at 10% and 1% noise are not decided")
	}
	if some := []float64{0.03, 0.05, 0.02, 0.045, 0.035}; l.Early(some, 0.01) != GoOn || !(CI(some, 0.95).Lo > 0.01) {
		t.Error("what 95% would decide ends early, and then is no winner at the confidence of an early look")
	}
	if l.Early(better[:4], 0.01) != GoOn {
		t.Error("looked before the first look")
	}
	if c := (Looks{Alpha: 0.05, First: 5, Last: 5}).Conf(true); c != 0.95 {
		t.Errorf("a single look has confidence %g", c)
	}
}
