package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/measure/grid"
)

// halfJudged is a report of one arm in two metrics: memory, which the host can judge, and speed, which it cannot.
func halfJudged(memory, speed float64) *grid.Report {
	one := func(name string, better measure.Better, v float64, f measure.Floor) grid.MetricReport {
		m := grid.MetricReport{Metric: measure.Metric{Name: name, Better: better}, Floor: f}
		m.Ranking.Rows = []measure.Row{{Arm: "a", Passes: 5, Median: v, Min: v, Max: v, Spread: 0.02}}
		return m
	}
	return &grid.Report{Schema: grid.Schema, Kept: 5, Passes: 5, Control: "a", Metrics: []grid.MetricReport{
		one("memory", measure.Lower, memory, measure.Floor{Noise: 0.01, Level: measure.Normal}),
		one("speed", measure.Higher, speed, measure.Floor{Noise: 0.03, Level: measure.Refused, Why: "two identical arms differ"}),
	}}
}

// A regression fails whatever else is too noisy; nothing is recorded, and nothing passes, where a metric is refused.
func TestRegressionComesBeforeRefusal(t *testing.T) {
	both := &grid.Expectations{Schema: grid.Schema, Metrics: map[string]map[string]grid.Expectancy{
		"memory": {"a": {Median: 100, Spread: 0.02}}, "speed": {"a": {Median: 50, Spread: 0.02}}}}
	voided := halfJudged(100, 50)
	voided.Kept = 0
	for i := range voided.Metrics {
		voided.Metrics[i].Ranking.Rows[0].Passes = 0
	}
	broken := halfJudged(100, 50)
	broken.Metrics[1].Ranking.Rows[0].Passes = 1
	out := &cobra.Command{}
	out.SetOut(io.Discard)
	for name, c := range map[string]struct {
		r    *grid.Report
		e    *grid.Expectations
		want string
	}{
		"memory holds, speed is refused":        {halfJudged(101, 50), both, "refused"},
		"memory is worse, speed is refused":     {halfJudged(110, 50), both, "failed"},
		"speed is worse though refused":         {halfJudged(100, 10), both, "failed"},
		"every pass disturbed":                  {voided, both, "refused"},
		"an arm that no longer prints a metric": {broken, both, "failed"},
		"no gate asked for":                     {halfJudged(100, 50), nil, "refused"},
	} {
		file := filepath.Join(t.TempDir(), "expected.json")
		err := conclude(out, &cli.Shared{}, &compareFlags{record: file}, c.r, c.e)
		state := "failed"
		switch {
		case err == nil:
			state = "ok"
		case errors.Is(err, cli.ErrRefused):
			state = "refused"
		}
		if state != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s: a baseline was written", name)
		}
	}
}
