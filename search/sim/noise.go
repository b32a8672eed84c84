// Package sim drives synthetic tunes: a noise model of a shared host over synthetic landscapes of
// kernel costs, so that strategies and decisions are compared by the thousand in seconds and the
// truth is known.
package sim

// Noise is a model of what a shared host does to timings. All sizes are relative (0.01 is 1%),
// probabilities are per sample.
type Noise struct {
	Name    string
	Sigma   float64 // lognormal jitter of a sample
	Drift   float64 // step of the random walk of the host's speed, between samples
	Trend   float64 // steady slowing, per sample
	Steal   float64 // probability that a burst of steal begins
	Burst   int     // its mean length in samples
	Stolen  float64 // slowdown within it
	Seen    float64 // probability that the guard notices a burst in a block
	Clocks  float64 // slowdown of the low clock state, 0 for one clock
	Dwell   int     // mean samples between changes of the clock
	Tail    float64 // probability of a sample from the heavy tail (Pareto, index 1.5)
	First   float64 // slowdown of the first position of a block
	Carry   float64 // share of the preceding arm's excess cost that carries over (cold caches)
	Hot     float64 // speed-up of an arm that follows itself: weights still in cache
	Process float64 // lognormal luck of a process (layout, pages), constant for its life
}

// The hosts that the report covers. A sample is one layer of an in-situ step. Cloud resembles the
// recordings of search/replay/testdata: residues of 9% at the core with 8% of wild values; quiet is a
// host of one's own, rough one that should be refused more often than not.
var (
	Quiet = Noise{Name: "quiet", Sigma: 0.03, Drift: 0.0005, First: 0.005, Carry: 0.005, Hot: 0.3,
		Process: 0.002, Tail: 0.01}
	Cloud = Noise{Name: "cloud", Sigma: 0.09, Drift: 0.003, Steal: 0.002, Burst: 20, Stolen: 0.4, Seen: 0.8,
		Clocks: 0.06, Dwell: 200, Tail: 0.08, First: 0.02, Carry: 0.01, Hot: 0.3, Process: 0.005}
	Rough = Noise{Name: "rough", Sigma: 0.15, Drift: 0.008, Trend: 0.0002, Steal: 0.006, Burst: 30, Stolen: 0.8,
		Seen: 0.7, Clocks: 0.12, Dwell: 80, Tail: 0.1, First: 0.04, Carry: 0.02, Hot: 0.3, Process: 0.01}
)
