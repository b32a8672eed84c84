package grid

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

// Result is what one run of one arm gave: values by metric, or a failure.
type Result struct {
	Pass     int                `json:"pass"`
	Arm      string             `json:"arm"`
	Values   map[string]float64 `json:"values,omitempty"`
	Work     *int64             `json:"work,omitempty"` // tokens, calls; nil where the command does not say
	Tree     int64              `json:"tree,omitempty"` // greatest RssAnon of its process tree, in bytes
	Evidence map[string]string  `json:"evidence,omitempty"`
	Nonce    string             `json:"nonce,omitempty"` // that the run was given
	Echo     string             `json:"echo,omitempty"`  // that it printed, where the spec asks for it
	Failure  *measure.Failure   `json:"failure,omitempty"`
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
	Schema     int            `json:"schema"`
	Name       string         `json:"name"`
	Control    string         `json:"control"`
	Provenance Provenance     `json:"provenance"`
	Passes     int            `json:"passes"`
	Kept       int            `json:"kept"`
	Orders     [][]string     `json:"orders"`
	Metrics    []MetricReport `json:"metrics"`
	// Evidence is what each arm showed of what ran: artifact digests, bytes, counters.
	Evidence  map[string]map[string]string `json:"evidence,omitempty"`
	Findings  []measure.Finding            `json:"findings,omitempty"`
	Failures  []measure.Failure            `json:"failures,omitempty"`
	Rejected  []measure.Rejection          `json:"rejected,omitempty"`
	Disturbed map[int]string               `json:"disturbed,omitempty"`
	Notes     []string                     `json:"notes,omitempty"`
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
	evidence := shown(results)
	j, notes, err := judge(s, results, evidence)
	if err != nil {
		return nil, err
	}
	for pass, why := range disturbed {
		j.Disturb(pass, why)
	}
	kept, of := j.Kept()
	r := &Report{Schema: Schema, Name: s.Name, Control: s.Control, Provenance: p, Passes: of, Kept: kept,
		Failures: j.Failures(), Rejected: j.Rejections(), Disturbed: j.Disturbed(), Evidence: evidence, Notes: append(notes, repeated(s, j)...)}
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

// shown is the evidence of each arm's first run that has any.
func shown(results []Result) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, r := range results {
		if len(r.Evidence) > 0 && out[r.Arm] == nil {
			out[r.Arm] = r.Evidence
		}
	}
	return out
}

// repeated are notes on arms that print one value, to the last digit, where the control's values differ: a
// counter may do that, a measurement does not. Where a nonce is echoed it cannot be an old output.
func repeated(s *Spec, j *measure.Judge) []string {
	same := func(metric, arm string) (float64, bool) {
		v := j.Values(metric, arm)
		return stat.Median(v), len(v) >= stat.MinPairs && slices.Min(v) == slices.Max(v)
	}
	var out []string
	for _, m := range s.Metrics {
		if _, steady := same(m.Name, s.Control); steady || m.Memory || s.Nonce != "" {
			continue
		}
		for _, a := range s.Arms {
			if v, ok := same(m.Name, a.Name); ok && a.Name != s.Control {
				out = append(out, fmt.Sprintf("%s of %s is %g in every pass, which no measurement gives: if its output is an old one, a nonce in the spec shows that", m.Name, a.Name, v))
			}
		}
	}
	return out
}

// judge feeds the results to a judge. When no arm shows evidence, that is a note and not a finding.
func judge(s *Spec, results []Result, evidence map[string]map[string]string) (*measure.Judge, []string, error) {
	var notes []string
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
		add(j, s, i, r, evidence[r.Arm])
	}
	return j, notes, nil
}

// add gives one result to the judge; a metric that is missing from it is a failure too. What a run
// shows must be what the arm's first run showed, and what the spec expects of it.
func add(j *measure.Judge, s *Spec, i int, r Result, shown map[string]string) {
	if r.Failure != nil {
		f := *r.Failure
		f.Arm, f.Block = r.Arm, r.Pass
		j.Fail(f)
		return
	}
	want := maps.Clone(shown)
	maps.Copy(want, s.Arm(r.Arm).Expect)
	for _, m := range s.Metrics {
		v, ok := r.Values[m.Name]
		if !ok {
			j.Fail(measure.Failure{Arm: r.Arm, Block: r.Pass, Class: "output", Stderr: "no value for metric " + m.Name})
			continue
		}
		expect, echo := measure.Expect{Nonce: r.Nonce, Evidence: want}, r.Echo
		if s.Nonce == "" { // nothing to compare: each sample is of the run that it came from
			expect.Nonce = fmt.Sprint("result ", i)
			echo = expect.Nonce
		}
		sample := measure.Sample{Arm: r.Arm, Block: r.Pass, Metric: m.Name, Value: v, Work: 1,
			Receipt: measure.Receipt{Nonce: echo, Evidence: r.Evidence}}
		if r.Work != nil {
			sample.Work = *r.Work
		}
		if m.Memory {
			sample.Receipt.Tree = []measure.Process{{RssAnon: held(m, v, r.Tree)}}
		}
		_ = j.Add(sample, expect) // a rejection is in the report
	}
}

// held is what the process tree of a run held, for a memory figure v of it. A command's own figure is
// taken unless the tree held more than twice as much at its peak: then it is of the wrong process.
func held(m Metric, v float64, tree int64) int64 {
	if m.Path != Tree && v < float64(tree)/2 {
		return tree
	}
	return int64(v)
}
