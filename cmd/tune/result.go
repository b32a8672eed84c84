package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
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
	Schema  int           `json:"schema"`
	Seconds float64       `json:"seconds"`
	BudgetS float64       `json:"budget_s"`
	Model   string        `json:"model"`
	Busy    bool          `json:"allow_busy,omitempty"`
	Host    *host.Profile `json:"host"`
	Floor   measure.Floor `json:"floor"` // of decode, for the first arithmetic
	// Floors are those of each phase.
	Floors   map[string]measure.Floor `json:"floors"`
	Sabotage *measure.Sabotage        `json:"sabotage,omitempty"`
	Judged   []judged                 `json:"judged"` // the same for every arithmetic
	Blocks   []session.Blocks         `json:"blocks,omitempty"`
	Verdicts []session.Verdict        `json:"verdicts"`
	Failures []session.Failure        `json:"failures"`
	Cache    cacheReport              `json:"cache"`
}

// judged is what the verdicts on one arithmetic rest on.
type judged struct {
	Weights  string                   `json:"weights"`
	Floor    measure.Floor            `json:"floor"`
	Floors   map[string]measure.Floor `json:"floors"`
	Sabotage *measure.Sabotage        `json:"sabotage,omitempty"`
}

type cacheReport struct {
	Dir     string `json:"dir"`
	Written int    `json:"written"`
	Warning string `json:"warning,omitempty"`
}

func newReport(h *app.Host, f *tuneFlags) *report {
	r := &report{Schema: 1, BudgetS: f.budget.Seconds(), Model: f.Preset, Busy: f.allowBusy, Host: h.Profile,
		Floor: measure.Floor{Noise: math.Inf(1), Why: "nothing was measured"}, Floors: map[string]measure.Floor{},
		Judged: []judged{}, Verdicts: []session.Verdict{}, Failures: []session.Failure{}}
	if f.Model != "" {
		r.Model = filepath.Base(f.Model)
	}
	return r
}

// add adds the result for an arithmetic.
func (r *report) add(weights string, res session.Result) {
	if len(r.Judged) == 0 {
		r.Floor, r.Floors, r.Sabotage = res.Floor, res.Floors, res.Sabotage
	}
	r.Judged = append(r.Judged, judged{weights, res.Floor, res.Floors, res.Sabotage})
	r.Blocks = append(r.Blocks, res.Blocks...)
	r.Verdicts = append(r.Verdicts, res.Verdicts...)
	r.Failures = append(r.Failures, res.Failures...)
	r.Cache.Written += res.Written
}

// survey adds what a survey found: it has no noise floor of its own, for it claims nothing.
func (r *report) survey(res session.Result) {
	r.Blocks = append(r.Blocks, res.Blocks...)
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

func (r *report) write(w io.Writer, json bool) error {
	if json {
		return r.writeJSON(w)
	}
	return r.writeText(w)
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

func (r *report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %.0f of %.0f s\n", r.Model, r.Host.CPU.Name, r.Seconds, r.BudgetS)
	all := r.judged()
	for _, j := range all {
		for _, phase := range slices.Sorted(maps.Keys(j.Floors)) {
			fmt.Fprintf(w, "noise floor %-8s %s%s\n", phase, j.of(all), floorText(j.Floors[phase]))
		}
		if len(j.Floors) == 0 {
			fmt.Fprintf(w, "noise floor %s%s\n", j.of(all), floorText(j.Floor))
		}
	}
	for _, v := range r.Verdicts {
		if v.Problem != "whole" {
			continue
		}
		fmt.Fprintf(w, "%-8s %s: %s", v.Phase, v.Weights, v.Decision)
		if v.Default != nil && v.Winner != nil {
			fmt.Fprintf(w, ", %.1f -> %.1f tok/s, ratio %.3f [%.3f, %.3f]", *v.Default, *v.Winner, v.Ratio.Median, v.Ratio.Lo, v.Ratio.Hi)
		}
		fmt.Fprintf(w, " (%s)", v.Why)
		if v.Kept < v.Pairs {
			fmt.Fprintf(w, ", kept %d of %d pairs", v.Kept, v.Pairs)
		}
		fmt.Fprintln(w)
	}
	for _, j := range all {
		if j.Sabotage != nil {
			fmt.Fprintf(w, "planted sabotage: %s%s\n", j.of(all), sabotageText(*j.Sabotage))
		}
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

// judged is what the verdicts rest on, by arithmetic. Reports of older builds have that of one.
func (r *report) judged() []judged {
	if len(r.Judged) > 0 {
		return r.Judged
	}
	return []judged{{Floor: r.Floor, Floors: r.Floors, Sabotage: r.Sabotage}}
}

// of names the arithmetic where there are several.
func (j judged) of(all []judged) string {
	if len(all) < 2 {
		return ""
	}
	return j.Weights + ": "
}

func floorText(f measure.Floor) string {
	return fmt.Sprintf("%s (kept %d, dropped %d)", noiseText(f), f.Kept, f.Dropped)
}

func noiseText(f measure.Floor) string {
	if math.IsInf(f.Noise, 0) {
		return "unknown"
	}
	return fmt.Sprintf("%.2f%%", 100*f.Noise)
}

// sabotageText says what became of the arms that were planted to test the judge.
func sabotageText(s measure.Sabotage) string {
	if s.Why != "" {
		return s.Why
	}
	text := fmt.Sprintf("%d of %d caught", len(s.Caught), len(s.Planted))
	for _, m := range s.Missed {
		text += fmt.Sprintf("; missed: %s %s", m.Arm, m.Why)
	}
	return text
}
