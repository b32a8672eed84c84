package stat

import "math"

// PlannedBlocks is the number of paired blocks that finds an effect of delta with 90% power at 5%,
// for noise of sigma a pair (both relative): ((1.96+1.28)*sigma/delta)^2, rounded up, at least 3.
func PlannedBlocks(sigma, delta float64) int {
	if !(sigma > 0) || !(delta > 0) {
		return 3
	}
	z := (1.96 + 1.28) * sigma / delta
	return max(3, int(min(math.Ceil(z*z-1e-9), math.MaxInt32)))
}

// NoiseFloor is the A/A noise floor: half the width of the 95% interval that Estimate has over
// blocks pairs like those of aa, log-ratios of an arm against itself. Fewer than three pairs give
// +Inf: an unknown floor is no floor.
//
// Resampling m pairs shows only (m-1)/m of their variance, and below six pairs little of the tail,
// so the width is scaled by the small-sample factor t(m-1)/1.96.
func NoiseFloor(aa []float64, blocks int, seed uint64) float64 {
	m := len(aa)
	if m < 3 || blocks < 1 || !finite(aa) {
		return math.Inf(1)
	}
	half := bootstrapEstimate(aa, min(blocks, bootstrapCap), 0.95, seed).Half()
	if blocks > bootstrapCap {
		half *= math.Sqrt(bootstrapCap / float64(blocks))
	}
	return half * StudentT(m-1, 0.95) / 1.96 * math.Sqrt(float64(m)/float64(m-1))
}

// bootstrapCap bounds the resampled size (Estimate is quadratic); beyond it the width shrinks with
// the square root.
const bootstrapCap = 32
