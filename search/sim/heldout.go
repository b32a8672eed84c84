package sim

import (
	"math"
	"math/rand/v2"

	"github.com/tilewright/tilewright/kernel"
)

// The held-out families differ from Smooth in structure and, the first, in the space. No strategy and
// no setting was chosen by looking at them.
var (
	// Roofline costs the greater of compute and memory, with cliffs where registers, code or a cache
	// overflow, and knobs that act on one side only.
	Roofline = Family{"roofline", tileDomain, drawRoofline, 0.02}
	// Nested is a decision tree: what a parameter does depends on all those above it.
	Nested = Family{"nested", Smooth.domain, drawTree, 0.08}
	// Unordered gives every value, every pair of values and some triples an effect of its own: neighbours
	// in a list of values have nothing in common.
	Unordered = Family{"unordered", Smooth.domain, drawTables, 0.05}
)

// heldOutSeed is far from the seeds that strategies are tuned with.
const heldOutSeed = 1 << 20

// HeldOut are the scenarios that nothing was tuned on: Smooth with new seeds, and the other families,
// on the hosts that can be judged.
func HeldOut() []Scenario {
	return grid([]Family{Smooth, Roofline, Nested, Unordered}, heldOutSeed)
}

// tile is the space of a blocked kernel.
var tile = kernel.Space{Version: "sim/tile", Params: []kernel.Param{
	{Name: "mr", Values: []int64{1, 2, 4, 6, 8, 12}, Default: 1},
	{Name: "nr", Values: []int64{1, 2, 3, 4, 6}, Default: 1},
	{Name: "kc", Values: []int64{64, 128, 256, 512, 1024}, Default: 64},
	{Name: "unroll", Values: []int64{1, 2, 4, 8}, Default: 1},
	{Name: "order", Values: []int64{0, 1, 2}, Default: 0},
	{Name: "pack", Values: []int64{0, 1}, Default: 0},
	{Name: "ahead", Values: []int64{0, 1, 2, 3}, Default: 0},
}, Constraints: []kernel.Constraint{{Doc: "accumulators", Terms: [][]string{{"mr", "nr"}}, Max: 32}}}

var tileDomain = newDomain(tile)

func drawRoofline(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	regs, code, cache := 8+24*rng.Float64(), 16+100*rng.Float64(), math.Exp(math.Log(200)+math.Log(10)*rng.Float64())
	spill, miss, balance := 0.2+0.8*rng.Float64(), 0.2+0.6*rng.Float64(), 0.6+0.8*rng.Float64()
	overhead, latency := 0.1+0.6*rng.Float64(), 0.1+0.5*rng.Float64()
	hides, packs := 0.2*rng.Float64(), 0.3*rng.NormFloat64()
	walk := [3]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
	return func(at []int) float64 {
		v := make([]float64, len(at))
		for i, k := range at {
			v[i] = float64(s.Params[i].Values[k])
		}
		mr, nr, kc, unroll, order, pack, ahead := v[0], v[1], v[2], v[3], at[4], v[5], v[6]
		compute := 1 + latency*max(0, 1-mr*nr/10) + overhead/unroll/math.Sqrt(mr)
		if mr*nr > regs {
			compute *= 1 + spill
		}
		if mr*nr*unroll > code {
			compute *= 1 + spill/2
		}
		memory := balance * (1 + 1/mr + 0.5/nr)
		if kc*(mr+nr)/8 > cache {
			memory *= 1 + miss
		}
		memory *= 1 + 0.08*walk[order] + 0.1*packs*pack*(1+walk[order]/2)
		memory *= 1 + latency/(1+ahead) - hides*ahead/(1+kc/256)
		memory += 20 / kc
		return math.Log(math.Pow(math.Pow(compute, 6)+math.Pow(max(memory, 0.1), 6), 1.0/6))
	}
}

// treeDepth and treeDecay shape the trees: a split at depth d moves its two sides apart by about
// treeDecay^d.
const (
	treeDepth = 9
	treeDecay = 0.75
)

type node struct {
	param, above int
	add          [2]float64
	next         [2]*node
}

// growTree grows a tree below a split of that depth.
func growTree(rng *rand.Rand, s kernel.Space, depth, most int, decay float64) *node {
	if depth == most {
		return nil
	}
	n := &node{param: rng.IntN(len(s.Params))}
	n.above = rng.IntN(len(s.Params[n.param].Values) - 1)
	size := math.Pow(decay, float64(depth))
	n.add = [2]float64{size * rng.NormFloat64(), size * rng.NormFloat64()}
	n.next = [2]*node{growTree(rng, s, depth+1, most, decay), growTree(rng, s, depth+1, most, decay)}
	return n
}

// value is the sum along the branch of a member.
func (n *node) value(at []int) float64 {
	sum := 0.0
	for n != nil {
		side := 0
		if at[n.param] > n.above {
			side = 1
		}
		sum += n.add[side]
		n = n.next[side]
	}
	return sum
}

func drawTree(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	return growTree(rng, s, 0, treeDepth, treeDecay).value
}

// Sizes of a pair's and of a triple's effects beside those of a single value.
const (
	pairTable   = 0.35
	tripleTable = 0.25
	triples     = 6
)

func drawTables(rng *rand.Rand, s kernel.Space) func([]int) float64 {
	var sets [][]int
	var sizes []float64
	for i := range s.Params {
		sets, sizes = append(sets, []int{i}), append(sizes, 1)
		for k := range i {
			sets, sizes = append(sets, []int{i, k}), append(sizes, pairTable)
		}
	}
	for range triples {
		sets, sizes = append(sets, rng.Perm(len(s.Params))[:3]), append(sizes, tripleTable)
	}
	tables := make([][]float64, len(sets))
	for i, set := range sets {
		n := 1
		for _, p := range set {
			n *= len(s.Params[p].Values)
		}
		for range n {
			tables[i] = append(tables[i], sizes[i]*rng.NormFloat64())
		}
	}
	return func(at []int) float64 {
		sum := 0.0
		for i, set := range sets {
			k := 0
			for _, p := range set {
				k = k*len(s.Params[p].Values) + at[p]
			}
			sum += tables[i][k]
		}
		return sum
	}
}
