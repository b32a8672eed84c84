package stat

import "math"

// Reason is why paired data do or do not support a switch.
type Reason string

const (
	Clear       Reason = "better past the margin"
	SinglePass  Reason = "single pass: not a result"
	TooFew      Reason = "fewer than 3 completed passes"
	Slower      Reason = "worse than the default"
	WithinFloor Reason = "within the noise floor"
	InMargin    Reason = "the interval includes the margin"
)

// MinPairs is the number of completed pairs below which nothing is a result.
const MinPairs = 3

// Rule decides whether an arm replaces the control.
type Rule struct {
	Margin float64 // relative gain that a switch must exceed with confidence, 0.01 for 1%
	Floor  float64 // A/A noise floor, log-ratio: no effect below it is claimed
	Conf   float64 // two-sided confidence of the interval; 0 means 0.95
}

// Decide judges paired log-gains (positive: the arm is better). Only Clear is a switch: the lower
// bound of the ratio exceeds 1+Margin and the estimate exceeds the floor.
func (r Rule) Decide(gains []float64) (Interval, Reason) {
	conf := r.Conf
	if conf == 0 {
		conf = 0.95
	}
	ci := CI(gains, conf)
	switch {
	case len(gains) == 1:
		return ci, SinglePass
	case len(gains) < MinPairs:
		return ci, TooFew
	case ci.Hi < 0:
		return ci, Slower
	case !(ci.Center > r.Floor):
		return ci, WithinFloor
	case !(ci.Lo > math.Log1p(r.Margin)):
		return ci, InMargin
	}
	return ci, Clear
}
