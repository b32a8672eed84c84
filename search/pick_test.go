package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
)

// inSitu is a source of steps that time layers each, dealt over the arms of a block as a tune deals
// them. Timings scatter by sigma, and a share of them is wild: a Pareto tail of index 1.5.
type inSitu struct {
	rng         *rand.Rand
	steps, left int
	turn        int
	sigma, wild float64
	cost        func(kernel.Config) float64
}

// inSituLayers is how many timings a step gives.
const inSituLayers = 28

func (s *inSitu) Left() float64 { return float64(s.left) / float64(s.steps) }

func (s *inSitu) Measure(arms []kernel.Config, order []int) (Block, error) {
	steps := (len(order) + inSituLayers - 1) / inSituLayers
	if s.left < steps {
		return Block{}, ErrBudget
	}
	s.left -= steps
	values := make([][]float64, len(arms))
	for range steps * inSituLayers {
		a := order[s.turn%len(order)]
		s.turn++
		v := s.cost(arms[a]) * math.Exp(s.sigma*s.rng.NormFloat64())
		if s.rng.Float64() < s.wild {
			v *= 1 + 0.2*(math.Pow(1-s.rng.Float64(), -1/1.5)-1)
		}
		values[a] = append(values[a], math.Log(v))
	}
	s.turn++ // else a layer would keep its arm
	b := Block{Costs: stat.Centres(values), Samples: make([]int, len(arms))}
	for a, x := range b.Costs {
		b.Costs[a], b.Samples[a] = math.Exp(x), len(values[a])
	}
	return b, nil
}

// declared is the share of searches, with the options of a tune, that are sure of a gain past 3%: what a
// tune takes where no confirmation covers it.
func declared(t *testing.T, searches, steps int, sigma, wild float64, cost func(kernel.Config) float64) float64 {
	t.Helper()
	space := tileSpace()
	var n atomic.Int64
	var wg sync.WaitGroup
	for seed := range uint64(searches) {
		wg.Go(func() {
			s, err := NewDefault(space, seed, 160)
			if err != nil {
				t.Error(err)
				return
			}
			src := &inSitu{rand.New(rand.NewPCG(seed, 77)), steps, steps, 0, sigma, wild, cost}
			best, err := Pick(s, space.Default(), src, RunOptions{Batch: Batch(s, steps, inSituLayers),
				Race: RaceOptions{Seed: seed}, Keep: FinalShare, Left: src.Left})
			if err != nil {
				t.Error(err)
			}
			if best != nil && best.Sure > 0.03 {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / float64(searches)
}

// Where every configuration costs the same, hardly a search is sure of a gain; a gain of 10% is seen.
func TestNothingIsFound(t *testing.T) {
	same := func(kernel.Config) float64 { return 1 }
	tenth := func(c kernel.Config) float64 {
		if c["mr"] == 4 || c["mr"] == 6 {
			return math.Exp(-0.1)
		}
		return 1
	}
	for _, noise := range []struct{ sigma, wild float64 }{{0.09, 0.08}, {0.06, 0.06}} {
		for _, steps := range []int{26, 60, 160} {
			if x := declared(t, 100, steps, noise.sigma, noise.wild, same); x > 0.02 {
				t.Errorf("%d steps, sigma %g, %g wild: %.1f%% of the searches found what is not there", steps, noise.sigma, noise.wild, 100*x)
			}
			if x := declared(t, 20, steps, noise.sigma, noise.wild, tenth); x < 0.9 {
				t.Errorf("%d steps, sigma %g, %g wild: %.1f%% of the searches were sure of a gain of 10%%", steps, noise.sigma, noise.wild, 100*x)
			}
		}
	}
}

// orders remembers how often each block ran the control.
type orders struct {
	*inSitu
	controls []int
}

func (o *orders) Measure(arms []kernel.Config, order []int) (Block, error) {
	n := 0
	for _, a := range order {
		if a == 0 {
			n++
		}
	}
	o.controls = append(o.controls, n)
	return o.inSitu.Measure(arms, order)
}

// A search that weighs what it knows runs the control once a block, the race of its leaders as often as
// the root of their number: it is their scores that are reported.
func TestControlOfTheFinals(t *testing.T) {
	s, err := NewDefault(tileSpace(), 1, 160)
	if err != nil {
		t.Fatal(err)
	}
	src := &orders{inSitu: &inSitu{rng: rand.New(rand.NewPCG(1, 1)), steps: 60, left: 60, sigma: 0.03, cost: trueCost}}
	if _, err := Pick(s, tileSpace().Default(), src, RunOptions{Batch: 8, Keep: FinalShare, Left: src.Left}); err != nil {
		t.Fatal(err)
	}
	finals := slices.Index(src.controls, controlsOf(Finalists, 0))
	if finals < 1 || slices.Max(src.controls[:finals]) > 1 {
		t.Errorf("blocks ran the control %v times", src.controls)
	}
}

// What is sure needs three blocks, and is no more than their centre.
func TestSure(t *testing.T) {
	for _, c := range []struct {
		gains  []float64
		lo, hi float64
	}{
		{nil, 0, 0}, {[]float64{0.1}, 0, 0}, {[]float64{0.1, 0.1}, 0, 0}, {[]float64{0.1, 0.11, 0.12}, 0.08, 0.11},
		{[]float64{-0.1, -0.1, -0.1, -0.1}, 0, 0}, {[]float64{0.3, -0.2, 0.1, 0.2, -0.1, 0}, 0, 0},
		{[]float64{0.1, 0.1, 0.1, 0.1, 0.1, 9}, 0.099, 0.101}, {[]float64{0.1, math.NaN(), 0.1}, 0, 0},
	} {
		if got := Sure(c.gains); got < c.lo || got > c.hi {
			t.Errorf("%v: sure of %g, want %g to %g", c.gains, got, c.lo, c.hi)
		}
	}
}
