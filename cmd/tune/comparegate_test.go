package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestGateIsJudgedByWhatItCanResolve(t *testing.T) {
	out := &cobra.Command{}
	out.SetOut(io.Discard)
	s := &cli.Shared{}
	file := filepath.Join(t.TempDir(), "expected.json")
	if err := conclude(out, s, &compareFlags{record: file}, halfJudged(100, 50), nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got grid.Expectations
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[string]grid.Expectancy{"memory": {"a": {Median: 100, Spread: 0.02}}}, got.Metrics); diff != "" {
		t.Errorf("recorded of what could be judged:\n%s", diff)
	}

	both := func(speed float64) *grid.Expectations {
		return &grid.Expectations{Schema: grid.Schema, Metrics: map[string]map[string]grid.Expectancy{
			"memory": {"a": {Median: 100, Spread: 0.02}}, "speed": {"a": {Median: speed, Spread: 0.02}}}}
	}
	only := both(50)
	delete(only.Metrics, "memory")
	voided := halfJudged(100, 50)
	voided.Kept = 0
	for i := range voided.Metrics {
		voided.Metrics[i].Ranking.Rows[0].Passes = 0
	}
	broken := halfJudged(100, 50)
	broken.Metrics[1].Ranking.Rows[0].Passes = 1
	for name, c := range map[string]struct {
		r    *grid.Report
		e    *grid.Expectations
		want string
	}{
		"memory holds, speed is not judged":     {halfJudged(101, 10), both(50), "ok"},
		"memory is worse, speed is not judged":  {halfJudged(110, 50), both(50), "failed"},
		"speed alone, not judged":               {halfJudged(100, 50), only, "refused"},
		"every pass disturbed":                  {voided, both(50), "refused"},
		"an arm that no longer prints a metric": {broken, both(50), "failed"},
		"no gate asked for":                     {halfJudged(100, 50), nil, "refused"},
	} {
		err := conclude(out, s, &compareFlags{}, c.r, c.e)
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
	}

	nothing := halfJudged(100, 50)
	nothing.Metrics = nothing.Metrics[1:]
	none := filepath.Join(t.TempDir(), "none.json")
	if err := conclude(out, s, &compareFlags{record: none}, nothing, nil); !errors.Is(err, cli.ErrRefused) {
		t.Errorf("recording what cannot be judged: %v", err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a baseline of nothing was written")
	}
}
