package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func normals(rng *rand.Rand, n int, mean, sd float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = mean + sd*rng.NormFloat64()
	}
	return out
}

func TestPlannedBlocks(t *testing.T) {
	for _, c := range []struct {
		sigma, delta float64
		want         int
	}{{0.01, 0.01, 11}, {0.03, 0.01, 95}, {0.001, 0.01, 3}, {0, 0.01, 3}, {math.NaN(), 0.01, 3}, {0.01, 0, 3}} {
		if got := PlannedBlocks(c.sigma, c.delta); got != c.want {
			t.Errorf("PlannedBlocks(%g, %g) = %d, want %d", c.sigma, c.delta, got, c.want)
		}
	}
}

func TestSignedRankCutMatchesTables(t *testing.T) {
	// Wilcoxon's table, two-sided 5%: critical values 0 (n=6), 2 (7), 3 (8), 5 (9), 8 (10), 52 (20).
	for n, crit := range map[int]int{5: -1, 6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 20: 52} {
		if got := signedRankCut(n, 0.025); got != crit+1 {
			t.Errorf("cut(%d) = %d, want %d", n, got, crit+1)
		}
	}
	if a, b := signedRankCut(60, 0.025), signedRankCut(61, 0.025); b-a < 10 || b-a > 40 {
		t.Errorf("the approximation does not continue the exact cuts: %d, %d", a, b)
	}
}

func TestCoverage(t *testing.T) {
	const rounds = 1500
	for _, n := range []int{3, 5, 6, 12} {
		rng := rand.New(rand.NewPCG(4, uint64(n)))
		missCI, missMed := 0, 0
		for range rounds {
			xs := normals(rng, n, 0.05, 0.02)
			if !CI(xs, 0.95).Contains(0.05) {
				missCI++
			}
			if !MedianCI(xs, 0.95).Contains(0.05) {
				missMed++
			}
		}
		if limit := rounds * 65 / 1000; missCI > limit || missMed > limit {
			t.Errorf("n=%d: intervals missed %d and %d of %d, want at most 6.5%%", n, missCI, missMed, rounds)
		}
	}
}

// A confidence sequence may be looked at after every sample: over a whole race it misses at most
// alpha, tails or not.
func TestSequenceIsAnytimeValid(t *testing.T) {
	const rounds, length, alpha = 400, 60, 0.05
	for name, draw := range map[string]func(*rand.Rand) float64{
		"gauss":   func(r *rand.Rand) float64 { return r.NormFloat64() },
		"cauchy":  func(r *rand.Rand) float64 { return r.NormFloat64() / r.NormFloat64() },
		"bimodal": func(r *rand.Rand) float64 { return float64(r.IntN(3)-1) + 0.05*r.NormFloat64() },
	} {
		rng := rand.New(rand.NewPCG(5, 5))
		missed := 0
		for range rounds {
			var xs []float64
			for range length {
				if xs = append(xs, draw(rng)); !Sequence(xs, alpha).Contains(0) {
					missed++
					break
				}
			}
		}
		if float64(missed) > rounds*alpha*1.4 {
			t.Errorf("%s: %d of %d sequences missed, alpha %g", name, missed, rounds, alpha)
		}
	}
	xs := []float64{0.1, 0.11, 0.09, 0.1, 0.105}
	if s := Sequence(xs, 0.05); s.Lo <= 0 {
		t.Errorf("five pairs ten sigma apart do not exclude 0: %+v", s)
	}
}

func TestIntervalsHoldTheirCentre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 30).Draw(t, "xs")
		for _, i := range []Interval{CI(xs, 0.95), CI(xs, 0.99), MedianCI(xs, 0.95)} {
			if !i.Contains(i.Center) || i.Lo > i.Hi {
				t.Fatalf("%+v", i)
			}
		}
		neg := make([]float64, len(xs))
		for i, x := range xs {
			neg[i] = -x
		}
		if a, b := CI(xs, 0.95), CI(neg, 0.95); math.Abs(a.Lo+b.Hi) > 1e-9 || math.Abs(a.Center+b.Center) > 1e-9 {
			t.Fatalf("not symmetric: %+v %+v", a, b)
		}
		if a, b := Bootstrap(xs, 5, Estimate, 0.95, 3), Bootstrap(xs, 5, Estimate, 0.95, 3); a != b {
			t.Fatalf("bootstrap is not deterministic")
		}
	})
}

func TestBadNumbersClaimNothing(t *testing.T) {
	for _, xs := range [][]float64{nil, {1}, {1, math.NaN(), 2}, {1, math.Inf(1), 1}} {
		for _, i := range []Interval{CI(xs, 0.95), MedianCI(xs, 0.95), Sequence(xs, 0.05), Bootstrap(xs, 3, Mean, 0.95, 1)} {
			if !math.IsInf(i.Lo, -1) || !math.IsInf(i.Hi, 1) {
				t.Errorf("%v gives %+v", xs, i)
			}
		}
		if f := NoiseFloor(xs, 10, 1); !math.IsInf(f, 1) {
			t.Errorf("floor of %v is %g", xs, f)
		}
	}
}

func TestNoiseFloor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	xs := normals(rng, 200, 0, 0.02)
	for _, n := range []int{4, 16, 64, 256} {
		want := 1.96 * 0.02 / math.Sqrt(float64(n))
		if got := NoiseFloor(xs, n, 1); got < 0.8*want || got > 1.3*want {
			t.Errorf("floor over %d blocks %.4f, theory %.4f", n, got, want)
		}
	}
}

// Few pairs show little of their own spread: the floor makes up for that, and on average promises no less
// noise than there is.
func TestNoiseFloorOfFewPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, m := range []int{4, 6, 10} {
		var sum float64
		for range 200 {
			sum += NoiseFloor(normals(rng, m, 0, 0.02), 4, 1) / 200
		}
		if want := 1.96 * 0.02 / 2; sum < want || sum > 2*want {
			t.Errorf("floor of %d pairs %.4f on average, theory %.4f", m, sum, want)
		}
	}
}

func TestWilliamsIsBalanced(t *testing.T) {
	for n := 2; n <= 9; n++ {
		rows := Williams(n)
		position, follows := map[[2]int]int{}, map[[2]int]int{}
		for _, row := range rows {
			if s := slices.Sorted(slices.Values(row)); s[0] != 0 || s[n-1] != n-1 {
				t.Fatalf("n=%d: %v is no permutation", n, row)
			}
			for i, a := range row {
				position[[2]int{i, a}]++
				if i > 0 {
					follows[[2]int{row[i-1], a}]++
				}
			}
		}
		per := len(rows) / n
		if len(position) != n*n || len(follows) != n*(n-1) {
			t.Errorf("n=%d: %d positions and %d successions", n, len(position), len(follows))
		}
		for _, m := range []map[[2]int]int{position, follows} {
			for k, c := range m {
				if c != per {
					t.Errorf("n=%d: %v occurs %d times, want %d", n, k, c, per)
				}
			}
		}
	}
	if len(Williams(0)) != 0 || len(Williams(1)) != 1 {
		t.Error("Williams of 0 and 1")
	}
}

func TestOrders(t *testing.T) {
	if got := Rotate(3, 2); !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("Rotate(3, 2) = %v", got)
	}
	if got := ABBA(3); got[0] != [2]int{0, 1} || got[1] != [2]int{1, 0} || got[2] != got[0] {
		t.Errorf("ABBA(3) = %v", got)
	}
	for _, n := range []int{0, 1, 4, 5, 100} {
		a, b := NewOrders(n, 3), NewOrders(n, 3)
		first := map[int]int{}
		for range 4 * n {
			row := a.Next()
			if !slices.Equal(row, b.Next()) || len(row) != n {
				t.Fatalf("n=%d: orders differ or are short", n)
			}
			first[row[0]]++
		}
		if n > 1 && n <= squareCap && first[0] != 4 {
			t.Errorf("n=%d: arm 0 came first %d times of %d", n, first[0], 4*n)
		}
	}
}

// A confirmation that stops as soon as it is decided, from five pairs on, still calls an equal arm
// better in under 1% of tunes: margin and floor pay for the looks.
func TestRuleSurvivesOptionalStopping(t *testing.T) {
	const rounds = 300
	for _, sigma := range []float64{0.01, 0.04} {
		rng := rand.New(rand.NewPCG(8, 8))
		wrong := 0
		for range rounds {
			rule := Rule{Margin: 0.01, Floor: NoiseFloor(normals(rng, 6, 0, sigma), 6, 1)}
			xs := normals(rng, 12, 0, sigma)
			for n := 5; n <= len(xs); n++ {
				if _, why := rule.Decide(xs[:n]); why == Clear {
					wrong++
					break
				}
			}
		}
		if wrong > 5 {
			t.Errorf("sigma %g: %d of %d equal arms were declared better", sigma, wrong, rounds)
		}
	}
}

func TestRule(t *testing.T) {
	for want, xs := range map[Reason][]float64{
		SinglePass: {0.5}, TooFew: {0.5, 0.5}, Slower: {-0.1, -0.11, -0.1},
		WithinFloor: {0.02, 0.021, 0.022}, InMargin: {0.04, 0.3, 0.1}, Clear: {0.1, 0.11, 0.1},
	} {
		if _, got := (Rule{Margin: 0.01, Floor: 0.03}).Decide(xs); got != want {
			t.Errorf("%v: %q, want %q", xs, got, want)
		}
	}
	if _, got := (Rule{}).Decide(nil); got != TooFew {
		t.Errorf("no pairs: %q", got)
	}
}

// A wild value moves the centre of its group little, groups of one or two are means, and what no group
// has is not a number.
func TestCentres(t *testing.T) {
	got := Centres([][]float64{{1, 1.1, 0.9, 1, 9}, {2, 2.1, 1.9}, {5, 6}, {7}, nil})
	for i, want := range []struct{ lo, hi float64 }{{1, 1.1}, {1.99, 2.01}, {5.5, 5.5}, {7, 7}} {
		if got[i] < want.lo || got[i] > want.hi {
			t.Errorf("group %d: %g, want %g to %g", i, got[i], want.lo, want.hi)
		}
	}
	if !math.IsNaN(got[4]) {
		t.Errorf("no values give %g", got[4])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var mean, robust float64
	for range 2000 {
		gs := make([][]float64, 8)
		for i := range gs {
			for range 4 {
				x := 0.1 * rng.NormFloat64()
				if rng.Float64() < 0.08 {
					x += rng.ExpFloat64()
				}
				gs[i] = append(gs[i], x)
			}
		}
		for i, c := range Centres(gs) {
			robust += c * c
			mean += Mean(gs[i]) * Mean(gs[i])
		}
	}
	if robust > 0.5*mean {
		t.Errorf("with tails the centres err by %g, means by %g", robust, mean)
	}
}
