package measure

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/search/stat"
)

// Level says what an A/A noise floor permits.
type Level string

const (
	Normal  Level = "normal"  // up to 1%
	Limited Level = "limited" // up to 10%: only effects above the floor are claimed
	Refused Level = "refused" // above 10%, unknown, or A/A arms that differ: nothing is judged
)

// The bounds of the levels, as log-ratios.
const (
	NormalFloor = 0.01
	RefuseFloor = 0.10
)

// Floor is the A/A noise floor: half the width of the 95% interval of the paired A/A log-ratio of
// the estimator in use (stat.Estimate) at the planned number of blocks.
type Floor struct {
	Noise   float64 // +Inf when unknown
	Center  float64 // of the A/A pairs, 0 but for noise
	Level   Level
	Why     string // of Refused
	Blocks  int    // planned
	Kept    int
	Dropped int
}

// AAFloor measures the floor from paired A/A log-ratios. Two identical arms that differ with 99%
// confidence by more than half the normal margin fail A/A: the order or the place of an arm shows in
// its value, and nothing is ranked.
func AAFloor(pairs []float64, planned, dropped int, seed uint64) Floor {
	f := Floor{Noise: stat.NoiseFloor(pairs, planned, seed), Blocks: planned, Kept: len(pairs), Dropped: dropped}
	ci := stat.CI(pairs, 0.99)
	f.Center = ci.Center
	switch {
	case math.IsInf(f.Noise, 1):
		f.Level, f.Why = Refused, fmt.Sprintf("the noise floor is unknown: %d A/A pairs were kept, at least %d are needed", len(pairs), stat.MinPairs)
	case !ci.Contains(0) && math.Abs(ci.Center) > NormalFloor/2:
		f.Level, f.Why = Refused, fmt.Sprintf("A/A failed: the same arm differs from itself by %.1f%%", 100*math.Expm1(ci.Center))
	case f.Noise > RefuseFloor:
		f.Level, f.Why = Refused, fmt.Sprintf("the A/A noise floor is %.1f%%, above %.0f%%", 100*f.Noise, 100*RefuseFloor)
	case f.Noise > NormalFloor:
		f.Level = Limited
	default:
		f.Level = Normal
	}
	return f
}

// floorJSON is a floor in the commands' contract.
type floorJSON struct {
	Noise   *float64 `json:"aa_noise"`
	Kept    int      `json:"kept"`
	Dropped int      `json:"dropped"`
	Level   Level    `json:"level"`
	Why     string   `json:"why,omitempty"`
	Blocks  int      `json:"planned_blocks"`
}

// MarshalJSON writes the fields of the commands' contract.
func (f Floor) MarshalJSON() ([]byte, error) {
	return json.Marshal(floorJSON{number(f.Noise), f.Kept, f.Dropped, f.Level, f.Why, f.Blocks})
}

// UnmarshalJSON reads what MarshalJSON wrote: all but the center.
func (f *Floor) UnmarshalJSON(b []byte) error {
	var v floorJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*f = Floor{Noise: math.Inf(1), Level: v.Level, Why: v.Why, Blocks: v.Blocks, Kept: v.Kept, Dropped: v.Dropped}
	if v.Noise != nil {
		f.Noise = *v.Noise
	}
	return nil
}

// number is x for JSON, null where JSON has no number.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
