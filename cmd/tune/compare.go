package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/lock"
	"github.com/tilewright/tilewright/tuner/measure/grid"
	"github.com/tilewright/tilewright/tuner/preflight"
)

type compareFlags struct {
	check, record string
	allowBusy     bool
}

const compareHelp = `Run the arms of SPEC (YAML or JSON) side by side and say what the numbers support. Every pass runs each arm
once in a fresh process, the control twice, and starts one arm later than the pass before. Disturbed passes are
dropped blind to the arm; failures are reported with exit status, signal and the head of stderr.

  schema: 1
  name: KV type
  control: f16                  # today's default; it also sets the noise floor
  passes: 5                     # at least 3
  warmup: 1                     # unrecorded passes first
  timeout_s: 600                # of a run
  margin: 0.01                  # a winner gains more than this
  metrics:
    - {name: tg_ts, better: higher, unit: tok/s, path: "results[test=tg128].median_ts"}
    - {name: memory, better: lower, unit: bytes, memory: true, path: (tree)}   # peak RssAnon of the process tree
  work: runs                    # path of the units of work done; none is no sample
  nonce: nonce                  # path at which a command prints $TILEWRIGHT_NONCE, which is new in every run
  engine_binary: ./engine       # for arms with engine settings, which become flags of engine bench
  bench: {preset: qwen3-0.6b, p: 0, n: 128}
  arms:
    - name: f16
    - {name: bf16, engine: {kv-type: bf16}}
    - {name: other, command: [./mybench, --json], env: {THREADS: 2}, evidence: [config.kv]}

expect: {build.rev: "abc"} names values that a run of an arm must show; one that shows another is rejected.

A command prints one JSON document; path and evidence are dotted paths into it. Evidence is what shows that the
arm's knob acts: arms of equal evidence are reported as inert.

Where two runs of the control differ, or their noise floor is above 10%, a metric is not judged: exit status 3.
Nothing is recorded then. With --check what got worse elsewhere still fails: exit status 1 comes before 3.`

func compareCmd(s *cli.Shared) *cobra.Command {
	f := &compareFlags{}
	c := &cobra.Command{
		Use: "compare SPEC", Short: "Compare anyone's arms, and refuse to rank noise", Long: compareHelp, Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return compare(cmd, s, f, args[0]) },
	}
	c.Flags().StringVar(&f.check, "check", "", "fail if an arm is worse than in this file of expectations")
	c.Flags().StringVar(&f.record, "record", "", "write this run's medians and spreads as expectations for --check")
	c.Flags().BoolVar(&f.allowBusy, "allow-busy", false, "on a busy or noisy machine, label the results instead of refusing")
	return c
}

func compare(cmd *cobra.Command, s *cli.Shared, f *compareFlags, file string) error {
	spec, err := readSpec(file)
	if err != nil {
		return err
	}
	expect, err := readExpectations(f.check)
	if err != nil {
		return err
	}
	if err := recordable(f.record); err != nil {
		return err
	}
	programs, err := findPrograms(spec)
	if err != nil {
		return err
	}
	h, err := app.NewHost(cmd.Context(), "")
	if err != nil {
		return err
	}
	q, err := keepQuiet(h.CPUs, f.allowBusy)
	if err != nil {
		return err
	}
	defer q.release()
	started := time.Now()
	results, err := runGrid(cmd.Context(), spec, programs, q)
	if err != nil {
		return err
	}
	notes, err := programs.unchanged()
	if err != nil {
		return err
	}
	r, err := grid.Build(spec, results, q.disturbed, provenance(h, programs, started))
	if err != nil {
		return err
	}
	r.Notes = slices.Concat(r.Notes, notes, q.notes)
	return conclude(cmd, s, f, r, expect)
}

// conclude prints the report, and turns what it says into an exit status.
func conclude(cmd *cobra.Command, s *cli.Shared, f *compareFlags, r *grid.Report, expect *grid.Expectations) error {
	var checked *grid.Checked
	if expect != nil {
		c := r.Check(expect)
		checked = &c
	}
	w := cmd.OutOrStdout()
	if s.JSON {
		if err := printJSON(w, comparison{r, checked}); err != nil {
			return err
		}
	} else {
		text := r.Text()
		if checked != nil {
			text += "\n" + checked.Text()
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	switch { // what got worse comes before what could not be judged
	case checked != nil && checked.Failed:
		return errors.New("an expectation was not met")
	case r.Refused() && !f.allowBusy:
		return fmt.Errorf("%w: %s", cli.ErrRefused, refusals(r))
	case checked != nil && !checked.Gated():
		return fmt.Errorf("%w: no expectation can be a gate on this host: %s", cli.ErrRefused, strings.Join(checked.Ungateable, ", "))
	case f.record == "":
		return nil
	}
	e := r.Expectations()
	if e.Empty() {
		return errors.New("--record: no arm has a result that a check could hold to: nothing is written")
	}
	b, err := indented(e)
	if err != nil {
		return err
	}
	return renameio.WriteFile(f.record, b, 0o644)
}

// comparison is the JSON of tune compare.
type comparison struct {
	*grid.Report
	Check *grid.Checked `json:"check,omitempty"`
}

func refusals(r *grid.Report) string {
	var out []string
	for _, m := range r.Metrics {
		if m.Floor.Why != "" {
			out = append(out, m.Metric.Name+": "+m.Floor.Why)
		}
	}
	return strings.Join(out, "; ")
}

func readExpectations(file string) (*grid.Expectations, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--check: %w", err)
	}
	defer f.Close()
	e, err := grid.ParseExpectations(f)
	if err != nil {
		return nil, fmt.Errorf("--check %s: %w", file, err)
	}
	return e, nil
}

// recordable refuses a place for --record before the hours of a comparison, not after them.
func recordable(file string) error {
	if file == "" {
		return nil
	}
	if fi, err := os.Lstat(file); err == nil && !fi.Mode().IsRegular() {
		return cli.Usagef("--record %s: not a plain file", file)
	}
	if err := unix.Access(filepath.Dir(file), unix.W_OK); err != nil {
		return cli.Usagef("--record %s: cannot write to %s: %v", file, filepath.Dir(file), err)
	}
	return nil
}

// quiet holds the host lock and watches the passes.
type quiet struct {
	lock      *lock.Lock
	watch     *preflight.Watch
	allowBusy bool
	disturbed map[int]string
	notes     []string
}

// keepQuiet takes the host lock and looks whether the target cores are idle. A user who allows a
// busy host gets a note instead of a refusal.
func keepQuiet(cpus []int, allowBusy bool) (*quiet, error) {
	q := &quiet{allowBusy: allowBusy, disturbed: map[int]string{}}
	src, lim := preflight.Live(), preflight.DefaultLimits()
	l, err := lock.Acquire()
	q.lock = l
	if err == nil {
		err = preflight.Guard(src, cpus, lim).Err()
	}
	if err != nil && !allowBusy {
		q.release()
		return nil, fmt.Errorf("%w: %v (--allow-busy labels the results instead)", cli.ErrRefused, err)
	}
	if err != nil {
		q.notes = append(q.notes, "--allow-busy: "+err.Error())
	}
	q.watch = preflight.NewWatch(src, cpus, lim)
	return q, nil
}

func (q *quiet) release() {
	if q.lock == nil {
		return
	}
	if err := q.lock.Release(); err != nil {
		slog.Warn("host lock", "why", err)
	}
	q.lock = nil
}

// pass runs f as a pass, which is void if something else used the cores meanwhile.
func (q *quiet) pass(p int, f func() error) error {
	begin := q.watch.Begin()
	if err := f(); err != nil {
		return err
	}
	b := q.watch.End(begin)
	why := strings.Join(b.Reasons, "; ")
	switch {
	case !b.Disturbed:
	case q.allowBusy:
		q.notes = append(q.notes, fmt.Sprintf("--allow-busy: pass %d was disturbed: %s", p, why))
	default:
		slog.Info("pass dropped", "pass", p, "why", why)
		q.disturbed[p] = why
	}
	return nil
}

// runGrid runs warm-up and passes. It stops early only if ctx ends.
func runGrid(ctx context.Context, spec *grid.Spec, programs programs, q *quiet) ([]grid.Result, error) {
	one := func(name string, p int) (grid.Result, error) {
		r := programs[spec.Arm(name).Name].run(ctx, spec)
		r.Pass, r.Arm = p, name
		slog.Debug("ran", "pass", p, "arm", name, "values", r.Values, "failure", r.Failure)
		return r, ctx.Err()
	}
	for range spec.Warm() {
		for _, a := range spec.Arms {
			if _, err := one(a.Name, 0); err != nil {
				return nil, err
			}
		}
	}
	var out []grid.Result
	for p := 1; p <= spec.Passes; p++ {
		err := q.pass(p, func() error {
			for _, name := range spec.Order(p) {
				r, err := one(name, p)
				if err != nil {
					return err
				}
				out = append(out, r)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
