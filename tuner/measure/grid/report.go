package grid

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tilewright/tilewright/tuner/measure"
)

// Result is what one run of one arm gave: values by metric, or a failure.
type Result struct {
	Pass     int                `json:"pass"`
	Arm      string             `json:"arm"`
	Values   map[string]float64 `json:"values,omitempty"`
	Work     int64              `json:"work,omitempty"` // tokens, calls; 0 means that the command does not say
	Evidence map[string]string  `json:"evidence,omitempty"`
	Failure  *measure.Failure   `json:"failure,omitempty"`
	// Receipt and Expect are those of our own engine; a stranger's command has neither.
	Receipt *measure.Receipt `json:"receipt,omitempty"`
	Expect  *measure.Expect  `json:"-"`
}

// Provenance says where the numbers come from.
type Provenance struct {
	Build    string            `json:"build,omitempty"`
	Host     string            `json:"host,omitempty"` // digest
	CPU      string            `json:"cpu,omitempty"`
	Threads  int               `json:"threads,omitempty"`
	Model    string            `json:"model,omitempty"` // digest
	Started  string            `json:"started,omitempty"`
	Protocol string            `json:"protocol,omitempty"`
	Extra    map[string]string `json:"extra,omitempty"`
}

// Report is what a comparison found.
type Report struct {
	Schema     int                 `json:"schema"`
	Name       string              `json:"name"`
	Control    string              `json:"control"`
	Provenance Provenance          `json:"provenance"`
	Passes     int                 `json:"passes"`
	Kept       int                 `json:"kept"`
	Orders     [][]string          `json:"orders"`
	Metrics    []MetricReport      `json:"metrics"`
	Findings   []measure.Finding   `json:"findings,omitempty"`
	Failures   []measure.Failure   `json:"failures,omitempty"`
	Rejected   []measure.Rejection `json:"rejected,omitempty"`
	Disturbed  map[int]string      `json:"disturbed,omitempty"`
	Notes      []string            `json:"notes,omitempty"`
}

// MetricReport is the part of one metric.
type MetricReport struct {
	Metric   measure.Metric    `json:"metric"`
	Floor    measure.Floor     `json:"floor"`
	Ranking  measure.Ranking   `json:"ranking"`
	Verdicts []measure.Verdict `json:"verdicts"`
	Choice   measure.Verdict   `json:"choice"`
}

// Refused reports whether any metric could not be judged for noise: exit status 3.
func (r *Report) Refused() bool {
	return slices.ContainsFunc(r.Metrics, func(m MetricReport) bool { return m.Floor.Level == measure.Refused })
}

// Build judges the results of a spec. disturbed names the passes that a guard voided, blind to arms.
func Build(s *Spec, results []Result, disturbed map[int]string, p Provenance) (*Report, error) {
	j, notes, err := judge(s, results)
	if err != nil {
		return nil, err
	}
	for pass, why := range disturbed {
		j.Disturb(pass, why)
	}
	kept, of := j.Kept()
	r := &Report{Schema: Schema, Name: s.Name, Control: s.Control, Provenance: p, Passes: of, Kept: kept,
		Failures: j.Failures(), Rejected: j.Rejections(), Disturbed: j.Disturbed(), Notes: notes}
	ran := map[string]bool{AA: false} // it is meant to run what the control runs
	for _, x := range results {
		ran[x.Arm] = x.Arm != AA && (ran[x.Arm] || x.Failure == nil)
	}
	for _, f := range j.Findings() {
		if ran[f.Arm] {
			r.Findings = append(r.Findings, f)
		}
	}
	for pass := 1; pass <= s.Passes; pass++ {
		r.Orders = append(r.Orders, s.Order(pass))
	}
	for _, m := range s.Metrics {
		r.Metrics = append(r.Metrics, metricReport(s, j, m, of-kept))
	}
	return r, nil
}

func metricReport(s *Spec, j *measure.Judge, m Metric, dropped int) MetricReport {
	floor := measure.AAFloor(j.Gains(m.Name, AA, s.Control), s.Passes, dropped, 1)
	out := MetricReport{Metric: m.Metric, Floor: floor, Ranking: j.Ranking(m.Name, AA),
		Choice: j.Choose(m.Name, floor, s.margin(), AA)}
	if floor.Level == measure.Refused && out.Ranking.Refused == "" {
		out.Ranking.Refused = measure.NotARanking + ": " + floor.Why
	}
	for _, name := range s.armNames()[1:] {
		if name != AA {
			out.Verdicts = append(out.Verdicts, j.Verdict(m.Name, name, floor, s.margin()))
		}
	}
	return out
}

// judge feeds the results to a judge. Evidence comes from the results; when no arm shows any, that
// is a note and not a finding.
func judge(s *Spec, results []Result) (*measure.Judge, []string, error) {
	evidence, notes := map[string]map[string]string{}, []string(nil)
	for _, r := range results {
		if len(r.Evidence) > 0 && evidence[r.Arm] == nil {
			evidence[r.Arm] = r.Evidence
		} else if len(r.Evidence) > 0 && !maps.Equal(evidence[r.Arm], r.Evidence) {
			notes = append(notes, fmt.Sprintf("arm %s, pass %d: evidence differs from its earlier passes", r.Arm, r.Pass))
		}
	}
	if len(evidence) == 0 {
		notes = append(notes, "no arm shows evidence of its knobs: a knob that is not connected would go unnoticed")
	}
	var arms []measure.Arm
	for _, name := range s.armNames() {
		arms = append(arms, measure.Arm{Name: name, Evidence: evidence[name]})
	}
	var metrics []measure.Metric
	for _, m := range s.Metrics {
		metrics = append(metrics, m.Metric)
	}
	j, err := measure.New(arms, metrics, measure.Options{Unproven: len(evidence) == 0})
	if err != nil {
		return nil, nil, err
	}
	for i, r := range results {
		add(j, s, i, r)
	}
	return j, notes, nil
}

// add gives one result to the judge; a metric that is missing from it is a failure too.
func add(j *measure.Judge, s *Spec, i int, r Result) {
	if r.Failure != nil {
		f := *r.Failure
		f.Arm, f.Block = r.Arm, r.Pass
		j.Fail(f)
		return
	}
	for _, m := range s.Metrics {
		v, ok := r.Values[m.Name]
		if !ok {
			j.Fail(measure.Failure{Arm: r.Arm, Block: r.Pass, Class: "output", Stderr: "no value for metric " + m.Name})
			continue
		}
		sample := measure.Sample{Arm: r.Arm, Block: r.Pass, Metric: m.Name, Value: v, Work: max(r.Work, 1)}
		expect := measure.Expect{Nonce: fmt.Sprint("result ", i)}
		switch {
		case r.Receipt != nil && r.Expect != nil:
			sample.Receipt, expect, sample.Work = *r.Receipt, *r.Expect, r.Work
		case m.Memory: // a stranger's own word for its memory
			sample.Receipt = measure.Receipt{Nonce: expect.Nonce, Tree: []measure.Process{{RssAnon: int64(v)}}}
		default:
			sample.Receipt.Nonce = expect.Nonce
		}
		_ = j.Add(sample, expect) // a rejection is in the report
	}
}
