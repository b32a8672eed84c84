package sim

import (
	"math"
	"math/rand/v2"
)

// tailScale and the index 1.5 shape the wild values.
const tailScale = 0.2

// Host is a machine in some state, deterministic by seed.
type Host struct {
	Noise
	Spent int // samples measured so far

	rng    *rand.Rand
	speed  float64 // ln slowdown by drift
	steal  int     // samples left of a burst
	stole  int     // samples of the current block that a burst touched
	since  int     // samples of the current block
	low    bool    // clock state
	last   int64   // arm that ran before, 0 for none
	excess float64 // its cost beyond the mean, for carry-over
	mean   float64 // running mean cost
}

// NewHost boots a host.
func NewHost(n Noise, seed uint64) *Host {
	return &Host{Noise: n, rng: rand.New(rand.NewPCG(seed, 0x4057))}
}

// Luck is the factor on every cost of one arm in a new process.
func (h *Host) Luck() float64 { return math.Exp(h.Process * h.rng.NormFloat64()) }

// Sample measures an arm of the given true cost at a position of a block.
func (h *Host) Sample(arm int64, cost float64, position int) float64 {
	h.Spent++
	h.since++
	h.advance()
	v := cost * math.Exp(h.speed+h.Sigma*h.rng.NormFloat64())
	if h.steal > 0 {
		h.steal--
		h.stole++
		v *= 1 + h.Stolen
	}
	if h.low {
		v *= 1 + h.Clocks
	}
	if h.Tail > 0 && h.rng.Float64() < h.Tail {
		v *= 1 + tailScale*(math.Pow(1-h.rng.Float64(), -1/1.5)-1)
	}
	if position == 0 {
		v *= 1 + h.First
	}
	if arm != 0 && arm == h.last {
		v *= 1 - h.Hot
	}
	v *= 1 + h.Carry*h.excess
	if h.mean == 0 {
		h.mean = cost
	}
	h.mean += 0.1 * (cost - h.mean)
	h.last, h.excess = arm, max(0, cost/h.mean-1)
	return v
}

// advance moves the state of the host by one sample.
func (h *Host) advance() {
	h.speed += h.Trend + h.Drift*h.rng.NormFloat64()
	if h.steal == 0 && h.Steal > 0 && h.rng.Float64() < h.Steal {
		h.steal = 1 + int(float64(h.Burst)*h.rng.ExpFloat64())
	}
	if h.Dwell > 0 && h.rng.Float64() < 1/float64(h.Dwell) {
		h.low = !h.low
	}
}

// maxStolen is the share of a block that a guard lets pass.
const maxStolen = 0.05

// Disturbed reports whether a guard noticed steal since the last call. It sees no arm and no value.
func (h *Host) Disturbed() bool {
	stole := float64(h.stole) > maxStolen*float64(h.since)
	h.stole, h.since = 0, 0
	return stole && h.rng.Float64() < h.Seen
}

// Settle lets whatever ran before leave the caches: between processes.
func (h *Host) Settle() { h.last, h.excess = 0, 0 }
