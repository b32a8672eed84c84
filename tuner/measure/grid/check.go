package grid

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/tuner/measure"
)

// Ungateable is the band, relative, above which a metric cannot be a gate on this host.
const Ungateable = 0.10

// Expectations is a baseline: what each arm gave in each metric, and how far it spread.
type Expectations struct {
	Schema  int                              `json:"schema"`
	Name    string                           `json:"name,omitempty"`
	Metrics map[string]map[string]Expectancy `json:"metrics"` // metric -> arm
}

// Expectancy is the baseline of one arm in one metric.
type Expectancy struct {
	Median float64 `json:"median"`
	Spread float64 `json:"spread"` // (max-min)/median over the passes of the baseline
}

// ParseExpectations reads a baseline.
func ParseExpectations(r io.Reader) (*Expectations, error) {
	d := json.NewDecoder(io.LimitReader(r, 1<<20))
	d.DisallowUnknownFields()
	var e Expectations
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("expectations: %w", err)
	}
	if err := ended(d); err != nil {
		return nil, fmt.Errorf("expectations: %w", err)
	}
	if e.Schema != Schema {
		return nil, fmt.Errorf("expectations: schema %d, this build reads %d", e.Schema, Schema)
	}
	for m, arms := range e.Metrics {
		for a, x := range arms {
			if !(x.Median > 0) || math.IsInf(x.Median, 0) || !(x.Spread >= 0) || math.IsInf(x.Spread, 0) {
				return nil, fmt.Errorf("expectations: %s of %s: median %g, spread %g; want a positive median and a spread of at least 0", m, a, x.Median, x.Spread)
			}
		}
	}
	if e.Empty() {
		return nil, errors.New("expectations: none in it: a check of nothing would pass")
	}
	return &e, nil
}

// Empty reports whether there is nothing to hold to.
func (e Expectations) Empty() bool {
	for _, arms := range e.Metrics {
		if len(arms) > 0 {
			return false
		}
	}
	return true
}

// ended refuses what follows a document: whoever wrote it meant something by it.
func ended(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON document")
	}
	return nil
}

// Expectations makes a baseline of a report, for a later Check: of the arms that have a result.
func (r *Report) Expectations() Expectations {
	e := Expectations{Schema: Schema, Name: r.Name, Metrics: map[string]map[string]Expectancy{}}
	for _, m := range r.Metrics {
		e.Metrics[m.Metric.Name] = map[string]Expectancy{}
		for _, row := range m.Ranking.Rows {
			if row.Why == "" {
				e.Metrics[m.Metric.Name][row.Arm] = Expectancy{row.Median, row.Spread}
			}
		}
	}
	return e
}

// Gate is the check of one arm in one metric.
type Gate struct {
	Metric   string  `json:"metric"`
	Arm      string  `json:"arm"`
	Expected float64 `json:"expected"`
	Got      float64 `json:"got"`
	Change   float64 `json:"change"` // relative, positive is better
	Band     float64 `json:"band"`   // what the host can resolve
	State    string  `json:"state"`
}

// The states of a gate. Regressed and Missing fail a check.
const (
	Held      = "held"
	Improved  = "improved"
	Regressed = "regressed"
	Missing   = "missing"    // expected, but not a result this time
	NotGated  = "ungateable" // the band is too wide for the metric to be a gate here
)

// Checked is the outcome of a check.
type Checked struct {
	Gates      []Gate   `json:"gates"`
	Ungateable []string `json:"ungateable,omitempty"` // metrics, named
	Failed     bool     `json:"failed"`
}

// Gated reports whether any expectation was a gate: a check in which none was says nothing.
func (c Checked) Gated() bool {
	return slices.ContainsFunc(c.Gates, func(g Gate) bool { return g.State != NotGated })
}

// Check compares a report with a baseline. The band of each arm is the widest of its spread then,
// its spread now and the noise floor now; a metric whose band is above 10% anywhere is named as
// ungateable there and fails nothing; so is every metric where fewer than three passes were kept.
func (r *Report) Check(e *Expectations) Checked {
	var out Checked
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		for _, arm := range slices.Sorted(maps.Keys(e.Metrics[name])) {
			g := r.gate(name, arm, e.Metrics[name][arm])
			out.Gates = append(out.Gates, g)
			out.Failed = out.Failed || g.State == Regressed || g.State == Missing
			if g.State == NotGated && !slices.Contains(out.Ungateable, name) {
				out.Ungateable = append(out.Ungateable, name)
			}
		}
	}
	return out
}

func (r *Report) gate(metric, arm string, x Expectancy) Gate {
	g := Gate{Metric: metric, Arm: arm, Expected: x.Median, State: Missing}
	i := slices.IndexFunc(r.Metrics, func(m MetricReport) bool { return m.Metric.Name == metric })
	if i < 0 {
		return g
	}
	m := r.Metrics[i]
	k := slices.IndexFunc(m.Ranking.Rows, func(row measure.Row) bool { return row.Arm == arm })
	if k < 0 || m.Ranking.Rows[k].Passes < 3 {
		if r.Kept < 3 { // the host's doing, not the arm's
			g.State = NotGated
		}
		return g
	}
	row := m.Ranking.Rows[k]
	g.Got, g.Change = row.Median, math.Expm1(m.Metric.Gain(row.Median, x.Median))
	g.Band = max(x.Spread, row.Spread)
	if !math.IsInf(m.Floor.Noise, 0) {
		g.Band = max(g.Band, m.Floor.Noise)
	}
	switch {
	case g.Band > Ungateable:
		g.State = NotGated
	case g.Change < -g.Band:
		g.State = Regressed
	case g.Change > g.Band:
		g.State = Improved
	default:
		g.State = Held
	}
	return g
}

// Text is the check for people.
func (c Checked) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %-16s %12s %12s %8s %7s  %s\n", "metric", "arm", "expected", "got", "change", "band", "state")
	for _, g := range c.Gates {
		fmt.Fprintf(&b, "%-18s %-16s %12.5g %12.5g %+7.1f%% %6.1f%%  %s\n", g.Metric, g.Arm, g.Expected, g.Got, 100*g.Change, 100*g.Band, g.State)
	}
	if len(c.Ungateable) > 0 {
		fmt.Fprintf(&b, "ungateable on this host: %s\n", strings.Join(c.Ungateable, ", "))
	}
	switch {
	case c.Failed:
		b.WriteString("check failed\n")
	case !c.Gated():
		b.WriteString("nothing was checked\n")
	case len(c.Ungateable) > 0:
		b.WriteString("check passed for the rest\n")
	default:
		b.WriteString("check passed\n")
	}
	return b.String()
}
