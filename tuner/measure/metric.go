// Package measure is the judge: it takes samples and says what they support. It is pure: no clock,
// no process, no file. Its rules are those that people learned by retracting results.
//
//   - An impossible sample, or one whose receipt is not its arm's, is rejected and the rejection kept.
//   - Arms are compared within blocks by paired log-ratios to the control; a disturbed block is
//     dropped whole, blind to the arm.
//   - Fewer than three completed passes are not a result; effects below the A/A floor are not claimed.
//   - A knob that leaves no trace in what ran is reported inert, not without effect.
package measure

import (
	"fmt"
	"math"
	"strings"
)

// Better is the direction of a metric.
type Better string

const (
	Higher Better = "higher" // rates
	Lower  Better = "lower"  // memory, latency
)

// Metric is what a sample measures.
type Metric struct {
	Name   string `json:"name"`
	Better Better `json:"better"`
	Unit   string `json:"unit,omitempty"`
	Memory bool   `json:"memory,omitempty"` // a sum of RssAnon over the process tree
}

// The metrics of this project.
var (
	DecodeRate  = Metric{Name: "tg_ts", Better: Higher, Unit: "tok/s"}
	PrefillRate = Metric{Name: "pp_ts", Better: Higher, Unit: "tok/s"}
	CallTime    = Metric{Name: "call_ns", Better: Lower, Unit: "ns"}
	RssSettled  = Metric{Name: "rss_anon_settled", Better: Lower, Unit: "bytes", Memory: true}
	RssPeak     = Metric{Name: "rss_anon_peak", Better: Lower, Unit: "bytes", Memory: true}
	LoadTime    = Metric{Name: "load_s", Better: Lower, Unit: "s"}
)

// Validate refuses a metric without a name or direction, and the resident set as a measure of
// memory: it counts page cache of the mapped checkpoint and moves by gigabytes between equal runs.
func (m Metric) Validate() error {
	if m.Name == "" {
		return fmt.Errorf("measure: a metric without a name")
	}
	if m.Better != Higher && m.Better != Lower {
		return fmt.Errorf("measure: metric %q: better is %q, want %q or %q", m.Name, m.Better, Higher, Lower)
	}
	switch strings.ToLower(m.Name) {
	case "vmrss", "vm_rss", "rss":
		return fmt.Errorf("measure: metric %q counts page cache; measure RssAnon instead", m.Name)
	}
	return nil
}

// Gain is the log-ratio of arm to control, positive when the arm is better.
func (m Metric) Gain(arm, control float64) float64 {
	if m.Better == Lower {
		arm, control = control, arm
	}
	return math.Log(arm / control)
}

// Best returns the index of the best value, -1 for none: the greatest of a rate, the least of
// memory and latency.
func (m Metric) Best(values []float64) int {
	best := -1
	for i, v := range values {
		if best < 0 || m.Gain(v, values[best]) > 0 {
			best = i
		}
	}
	return best
}
