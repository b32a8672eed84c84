package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/tuner/host"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/session"
)

// report is what `tune --host-profile --json` prints.
type report struct {
	Schema   int               `json:"schema"`
	Seconds  float64           `json:"seconds"`
	BudgetS  float64           `json:"budget_s"`
	Model    string            `json:"model"`
	Busy     bool              `json:"allow_busy,omitempty"`
	Host     *host.Profile     `json:"host"`
	Floor    measure.Floor     `json:"floor"`
	Verdicts []session.Verdict `json:"verdicts"`
	Failures []session.Failure `json:"failures"`
	Cache    cacheReport       `json:"cache"`
}

type cacheReport struct {
	Dir     string `json:"dir"`
	Written int    `json:"written"`
	Warning string `json:"warning,omitempty"`
}

func newReport(h *app.Host, f *tuneFlags) *report {
	r := &report{Schema: 1, BudgetS: f.budget.Seconds(), Model: f.Preset, Busy: f.allowBusy, Host: h.Profile,
		Verdicts: []session.Verdict{}, Failures: []session.Failure{}}
	if f.Model != "" {
		r.Model = filepath.Base(f.Model)
	}
	return r
}

func (r *report) add(res session.Result) {
	r.Floor = res.Floor
	r.Verdicts = append(r.Verdicts, res.Verdicts...)
	r.Failures = append(r.Failures, res.Failures...)
	r.Cache.Written += res.Written
}

func (r *report) finish(s *cache.Store, took time.Duration) {
	r.Seconds, r.Cache.Dir, r.Cache.Warning = took.Seconds(), s.Dir(), s.Warning()
}

// lastTune is the file that `tune report` reads.
const lastTune = "last-tune.json"

func (r *report) save(dir string) {
	if dir == "" {
		return
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, lastTune), append(b, '\n'), 0o600)
	}
	if err != nil {
		slog.Warn("report not kept", "why", err)
	}
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

func (r *report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %.0f of %.0f s\n", r.Model, r.Host.CPU.Name, r.Seconds, r.BudgetS)
	floor := "unknown"
	if !math.IsInf(r.Floor.Noise, 0) {
		floor = fmt.Sprintf("%.2f%%", 100*r.Floor.Noise)
	}
	fmt.Fprintf(w, "noise floor %s (kept %d, dropped %d)\n", floor, r.Floor.Kept, r.Floor.Dropped)
	for _, v := range r.Verdicts {
		if v.Problem != "whole" {
			continue
		}
		fmt.Fprintf(w, "%-8s %s: %s", v.Phase, v.Weights, v.Decision)
		if v.Default != nil && v.Winner != nil {
			fmt.Fprintf(w, ", %.1f -> %.1f tok/s, ratio %.3f [%.3f, %.3f]", *v.Default, *v.Winner, v.Ratio.Median, v.Ratio.Lo, v.Ratio.Hi)
		}
		fmt.Fprintf(w, " (%s)\n", v.Why)
	}
	for _, v := range r.Verdicts {
		if v.Finalist {
			fmt.Fprintf(w, "  %-40s %.3fx in situ: %s\n", v.Problem, v.Ratio.Median, v.Config)
		}
	}
	if n := len(r.Failures); n > 0 {
		fmt.Fprintf(w, "%d candidates failed: see tune report\n", n)
	}
	where := r.Cache.Dir
	if where == "" {
		where = "memory only: " + r.Cache.Warning
	}
	_, err := fmt.Fprintf(w, "%d entries written to %s\n", r.Cache.Written, where)
	return err
}
