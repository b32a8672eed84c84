package sim

import (
	"math"
	"math/rand/v2"

	"github.com/tilewright/tilewright/kernel"
)

// The fresh families were written when the strategies were settled, and run once.
var (
	// Regimes is the least of three smooth landscapes: which of them counts changes at edges that lie
	// across all parameters.
	Regimes = Family{"regimes", Smooth.domain, drawRegimes, 0.04}
	// Waves is a sum of waves across random pairs and triples of parameters.
	Waves = Family{"waves", tileDomain, drawWaves, 0.04}
)

// freshSeed is far from the seeds of the other scenarios.
const freshSeed = 1 << 24

// Fresh are scenarios that nothing at all was decided on.
func Fresh() []Scenario { return grid([]Family{Smooth, Regimes, Waves}, freshSeed) }

const regimes = 3

func drawRegimes(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	var all [regimes]func([]int) float64
	var level [regimes]float64
	for i := range all {
		all[i], level[i] = drawEffects(rng, s), rng.NormFloat64()
	}
	return func(at []int) float64 {
		least := math.Inf(1)
		for i, f := range all {
			least = min(least, f(at)+level[i])
		}
		return least
	}
}

// Sizes of Waves.
const (
	waves     = 24
	waveTurns = 0.4 // mean number of turns along one parameter
)

func drawWaves(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	type wave struct {
		params []int
		turns  []float64
		phase  float64
		size   float64
	}
	var all []wave
	for range waves {
		w := wave{params: rng.Perm(len(s.Params))[:1+rng.IntN(3)], phase: rng.Float64()}
		for range w.params {
			w.turns = append(w.turns, waveTurns*rng.NormFloat64())
		}
		w.size = rng.NormFloat64() / float64(len(w.params))
		all = append(all, w)
	}
	return func(at []int) float64 {
		sum := 0.0
		for _, w := range all {
			x := w.phase
			for i, p := range w.params {
				x += w.turns[i] * float64(at[p]) / float64(len(s.Params[p].Values)-1)
			}
			sum += w.size * math.Cos(2*math.Pi*x)
		}
		return sum
	}
}
