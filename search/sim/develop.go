package sim

import (
	"math"
	"math/rand/v2"

	"github.com/tilewright/tilewright/kernel"
)

// The families that strategies are developed on beside Smooth: between them they break every
// assumption of a model of single values and products of pairs.
var (
	// Stages runs three kinds of work one after the other, each as slow as the worse of two resources.
	Stages = Family{"stages", Smooth.domain, drawStages, 0.03}
	// Forest is a sum of shallow trees.
	Forest = Family{"forest", Smooth.domain, drawForest, 0.06}
	// Gated gives each parameter two sets of effects, and another parameter says which of them holds.
	Gated = Family{"gated", tileDomain, drawGated, 0.05}
)

// developSeed is far from the seeds of the other scenarios.
const developSeed = 1 << 16

// Develop are the scenarios to work on.
func Develop() []Scenario { return grid([]Family{Smooth, Stages, Forest, Gated}, developSeed) }

// grid are the plans on the hosts that can be judged, with four kinds of landscape of each family.
func grid(families []Family, seed uint64) []Scenario {
	var out []Scenario
	for _, p := range []Plan{DecodePlan, PrefillPlan} {
		for _, n := range []Noise{Quiet, Cloud} {
			for _, f := range families {
				out = append(out, Scenario{n, f.Name + " 2x", f, 2, 0.4, seed, p},
					Scenario{n, f.Name + " 5x", f, 5, 0.25, seed, p}, Scenario{n, f.Name + " best", f, 3, 0, seed, p},
					Scenario{n, f.Name + " flat", f, 1.005, 0.5, seed, p})
			}
		}
	}
	return out
}

// Sizes of Stages.
const (
	stages = 3
	worse  = 5 // exponent of the soft maximum
)

func drawStages(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	type resource struct {
		level float64
		slope []float64 // of each parameter's place
		limit float64   // of their sum, beyond which it costs more
		jump  float64
	}
	var all [stages][2]resource
	for k := range all {
		for j := range all[k] {
			r := resource{level: 0.3 * rng.NormFloat64(), limit: 0.7 * rng.NormFloat64(), jump: 0.3 * rng.ExpFloat64()}
			for range s.Params {
				r.slope = append(r.slope, 0.5*rng.NormFloat64())
			}
			all[k][j] = r
		}
	}
	return func(at []int) float64 {
		total := 0.0
		for _, stage := range all {
			sum := 0.0
			for _, r := range stage {
				x := r.level
				load := 0.0
				for i, v := range at {
					load += r.slope[i] * (2*float64(v)/float64(len(s.Params[i].Values)-1) - 1)
				}
				if x += load / 2; load > r.limit {
					x += r.jump
				}
				sum += math.Exp(worse * x)
			}
			total += math.Pow(sum, 1.0/worse)
		}
		return math.Log(total)
	}
}

// Sizes of Forest.
const (
	forestTrees = 3
	forestDepth = 7
)

func drawForest(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	var trees []*node
	for range forestTrees {
		trees = append(trees, growTree(rng, s, 0, forestDepth, 0.85))
	}
	return func(at []int) float64 {
		sum := 0.0
		for _, t := range trees {
			sum += t.value(at)
		}
		return sum
	}
}

func drawGated(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	n := len(s.Params)
	gate, above := make([]int, n), make([]int, n)
	tables := make([][2][]float64, n)
	for i, p := range s.Params {
		gate[i] = (i + 1 + rng.IntN(n-1)) % n
		above[i] = rng.IntN(len(s.Params[gate[i]].Values) - 1)
		size := 0.3 + rng.ExpFloat64()
		for side := range tables[i] {
			level := 0.0
			for range p.Values {
				level += size * rng.NormFloat64() / 2
				tables[i][side] = append(tables[i][side], level)
			}
		}
	}
	return func(at []int) float64 {
		sum := 0.0
		for i, v := range at {
			side := 0
			if at[gate[i]] > above[i] {
				side = 1
			}
			sum += tables[i][side][v]
		}
		return sum
	}
}
