package measure

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
)

// Decision is the outcome of a comparison with the control.
type Decision string

const (
	Winner   Decision = "winner"
	NoWinner Decision = "no winner" // the control stays: a normal result
)

// Reasons beside those of stat.
const (
	WhyBudget = "budget"
	WhyInert  = "inert: nothing that ran differs from the default"
	WhyTwin   = "twin: it ran what another arm ran"
	WhyFailed = "the arm failed"
)

// Margin is the gain that a switch must exceed unless told otherwise.
const Margin = 0.01

// Ratio is a paired ratio to the control with its 95% interval, above 1 where the arm is better.
type Ratio struct{ Median, Lo, Hi float64 }

// MarshalJSON writes null for what is unknown. No ratio is 0: that is a log-ratio without a lower bound.
func (r Ratio) MarshalJSON() ([]byte, error) {
	known := func(x float64) *float64 {
		if x <= 0 {
			return nil
		}
		return number(x)
	}
	return json.Marshal(map[string]*float64{"median": known(r.Median), "lo": known(r.Lo), "hi": known(r.Hi)})
}

// UnmarshalJSON reads null as unknown.
func (r *Ratio) UnmarshalJSON(b []byte) error {
	var v struct{ Median, Lo, Hi *float64 }
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	or := func(p *float64, unknown float64) float64 {
		if p == nil {
			return unknown
		}
		return *p
	}
	*r = Ratio{or(v.Median, math.NaN()), or(v.Lo, math.Inf(-1)), or(v.Hi, math.Inf(1))}
	return nil
}

// Verdict is the judgement of one arm against the control in one metric.
type Verdict struct {
	Arm      string   `json:"arm"`
	Metric   string   `json:"metric"`
	Ratio    Ratio    `json:"ratio"`
	Decision Decision `json:"decision"`
	Why      string   `json:"why"`
	Pairs    int      `json:"pairs"`
}

// Verdict judges an arm against the control: a winner is better past the margin, above the floor,
// over three pairs at least, acts, and never failed.
func (j *Judge) Verdict(metric, arm string, f Floor, margin float64) Verdict {
	gains := j.Gains(metric, arm, j.Control())
	ci, reason := stat.Rule{Margin: margin, Floor: f.Noise, Conf: j.o.Conf}.Decide(gains)
	e := ci.Exp()
	v := Verdict{Arm: arm, Metric: metric, Ratio: Ratio{e.Center, e.Lo, e.Hi}, Decision: NoWinner,
		Why: string(reason), Pairs: len(gains)}
	switch {
	case j.inert(arm):
		v.Why = WhyInert
	case f.Level == Refused && reason != stat.SinglePass && reason != stat.TooFew:
		v.Why = f.Why
	case j.failed(arm):
		v.Why = WhyFailed
	case reason == stat.Clear:
		v.Decision = Winner
	}
	return v
}

func (j *Judge) failed(arm string) bool {
	for _, f := range j.failures {
		if f.Arm == arm {
			return true
		}
	}
	return false
}

// Choose picks the winner for a metric: among the arms whose verdict is winner, the best by ratio,
// but those within the tie band of it (log-ratio; the floor serves) count as equal, and of equals
// the first declared wins. Without one the control stays, and the verdict is that of the best arm.
// Arms in leaveOut (an A/A twin) are not candidates.
func (j *Judge) Choose(metric string, f Floor, margin float64, leaveOut ...string) Verdict {
	best := Verdict{Arm: j.Control(), Metric: metric, Ratio: Ratio{1, 1, 1}, Decision: NoWinner, Why: WhyBudget}
	var all []Verdict
	for _, a := range j.arms[1:] {
		if slices.Contains(leaveOut, a.Name) {
			continue
		}
		v := j.Verdict(metric, a.Name, f, margin)
		all = append(all, v)
		if best.Arm == j.Control() || v.outranks(best) {
			best = v
		}
	}
	if best.Decision != Winner {
		return best
	}
	for _, v := range all {
		if v.Decision == Winner && math.Log(best.Ratio.Median/v.Ratio.Median) <= f.Noise {
			return v
		}
	}
	return best
}

// outranks reports whether v says more for its arm than w for its own: a winner before the rest, a
// result before what is none, then the greater ratio.
func (v Verdict) outranks(w Verdict) bool {
	if a, b := v.Decision == Winner, w.Decision == Winner; a != b {
		return a
	}
	if a, b := v.Pairs >= stat.MinPairs, w.Pairs >= stat.MinPairs; a != b {
		return a
	}
	return v.Ratio.Median > w.Ratio.Median
}
