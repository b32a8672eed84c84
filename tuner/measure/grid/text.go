package grid

import (
	"fmt"
	"math"
	"strings"
)

// Text is the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: kept %d of %d passes, control %s\n", r.Name, r.Kept, r.Passes, r.Control)
	if p := r.Provenance; p.CPU != "" || p.Build != "" {
		model := ""
		if p.Model != "" {
			model = "model " + p.Model + ", "
		}
		fmt.Fprintf(&b, "build %s, host %s (%s), %d threads, %s%s\n", p.Build, p.Host, p.CPU, p.Threads, model, p.Started)
	}
	for _, m := range r.Metrics {
		m.text(&b, r.Control)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s is the same as %s (%s)\n", f.Kind, f.Arm, f.Of, f.Why)
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "failed: %s\n", f)
	}
	said := ""
	for _, x := range r.Rejected {
		line := fmt.Sprintf("rejected: %s, pass %d: %s\n", x.Sample.Arm, x.Sample.Block, x.Why)
		if line != said { // a run without its nonce is rejected in every metric
			b.WriteString(line)
		}
		said = line
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func (m MetricReport) text(b *strings.Builder, control string) {
	unit := ""
	if m.Metric.Unit != "" {
		unit = m.Metric.Unit + ", "
	}
	fmt.Fprintf(b, "\n%s (%s%s is better), noise floor %s (%s)\n", m.Metric.Name, unit, m.Metric.Better, percent(m.Floor.Noise), m.Floor.Level)
	fmt.Fprintf(b, "  %-16s %12s %12s %12s %7s %6s  %-26s %s\n", "arm", "median", "min", "max", "spread", "passes", "ratio to control", "decision")
	for _, row := range m.Ranking.Rows {
		ratio, decision := "1", "control"
		for _, v := range m.Verdicts {
			if v.Arm == row.Arm {
				switch ratio = fmt.Sprintf("%s [%s, %s]", times(v.Ratio.Median), times(v.Ratio.Lo), times(v.Ratio.Hi)); {
				case row.Why != "":
					ratio = row.Why
				case math.IsNaN(v.Ratio.Median): // no pass has both it and the control
					ratio = "unknown"
				}
				decision = fmt.Sprintf("%s: %s", v.Decision, v.Why)
			}
		}
		fmt.Fprintf(b, "  %-16s %12.5g %12.5g %12.5g %6.1f%% %6d  %-26s %s\n", row.Arm, row.Median, row.Min, row.Max, 100*row.Spread, row.Passes, ratio, decision)
	}
	if m.Ranking.Refused != "" {
		fmt.Fprintf(b, "  %s\n", m.Ranking.Refused)
	}
	fmt.Fprintf(b, "  %s: %s\n", m.Choice.Decision, choice(m, control))
}

func choice(m MetricReport, control string) string {
	if m.Choice.Decision == "winner" {
		return fmt.Sprintf("%s, %s times the control", m.Choice.Arm, times(m.Choice.Ratio.Median))
	}
	return fmt.Sprintf("%s stays (best other arm: %s, %s)", control, m.Choice.Arm, m.Choice.Why)
}

// times is a ratio: of those that anybody compares to the third place, of others the size.
func times(x float64) string {
	if x >= 1000 {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.3f", x)
}

func percent(x float64) string {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return "unknown"
	}
	return fmt.Sprintf("%.2f%%", 100*x)
}
