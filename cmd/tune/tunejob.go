package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/lock"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/session"
)

// tuneJob is the main job: what it works on, and what it holds while it measures.
type tuneJob struct {
	cmd      *cobra.Command
	s        *cli.Shared
	f        *tuneFlags
	started  time.Time
	bare     bool // neither a model nor a preset was named
	numerics []model.Numerics
	ref      runner.Ref
	model    *model.Model
	host     *app.Host
	backends *app.Backends

	rep     *report
	watch   *watch
	prog    *progress
	store   *cache.Store
	suite   *kernel.Suite
	closers []func()
}

func tuneHost(cmd *cobra.Command, s *cli.Shared, f *tuneFlags) error {
	j := &tuneJob{cmd: cmd, s: s, f: f, started: processStart(), bare: f.Model == "" && f.Preset == ""}
	defer j.close()
	if err := j.open(); err != nil {
		return err
	}
	if f.dryRun {
		return dryRun(cmd, s, j.model, j.numerics, j.host, j.backends, f)
	}
	if err := j.occupy(); err != nil {
		return err
	}
	tuned := f.budget
	if j.bare { // the rest is for the formats that the preset does not have
		tuned -= f.budget / 8
	}
	for i, n := range j.numerics {
		if err := j.tune(n, tuned*time.Duration(i+1)/time.Duration(len(j.numerics))); err != nil {
			return err
		}
	}
	if j.bare {
		if err := j.survey(tuned); cmd.Context().Err() != nil {
			return err
		} else if err != nil { // what was tuned stands
			slog.Warn("no rules for the formats that the preset does not have", "why", err)
		}
	}
	j.finish()
	j.rep.save(j.store.Dir())
	return j.rep.write(cmd.OutOrStdout(), s.JSON)
}

// open checks the flags and opens what they name.
func (j *tuneJob) open() (err error) {
	ctx, f := j.cmd.Context(), j.f
	if j.numerics, err = f.check(); err != nil {
		return err
	}
	if j.ref, err = f.Ref(); err != nil {
		return err
	}
	if j.model, err = app.OpenModel(j.ref); err != nil {
		return err
	}
	j.onClose(func() { j.model.Close() })
	if err := f.Check(j.model); err != nil {
		return err
	}
	if n := app.ContextOf(j.model, f.Context); n < session.MinContext {
		return cli.Usagef("%s with %d positions of context: winners are confirmed behind a prompt of 512, which takes %d", j.model.Spec.Name, n, session.MinContext)
	}
	if j.host, err = app.NewHost(ctx, f.ISA); err != nil {
		return err
	}
	if f.Threads > len(j.host.CPUs) {
		return cli.Usagef("--threads %d: this process may use %d cores", f.Threads, len(j.host.CPUs))
	}
	if j.backends, err = app.NewBackends(ctx, j.host, j.s.PluginDir, j.s.CacheDir); err != nil {
		return err
	}
	j.onClose(j.backends.Close)
	j.rep = newReport(j.host, f)
	return nil
}

// occupy takes the machine for itself, as far as the user wants that, and what is needed to measure.
func (j *tuneJob) occupy() (err error) {
	if j.f.allowBusy {
		j.onClose(app.LockHost())
	} else {
		l, err := lock.Acquire()
		if err != nil {
			return fmt.Errorf("%w: %v", cli.ErrRefused, err)
		}
		j.onClose(func() { l.Release() })
	}
	if j.watch, err = newWatch(j.host.CPUs, j.f.allowBusy); err != nil {
		return err
	}
	j.prog = newProgress(j.cmd.ErrOrStderr(), j.s, j.started, j.f.budget)
	j.onClose(j.prog.done)
	j.store = j.s.OpenCache(false)
	j.onClose(j.store.Close)
	j.suite, err = j.backends.Suite(j.cmd.Context())
	return err
}

// options of a session on a model, until a moment after the start.
func (j *tuneJob) options(ref runner.Ref, m *model.Model, n model.Numerics, until time.Duration) session.Options {
	f, h := j.f, j.host
	return session.Options{
		Ref: absolute(ref), Target: app.Target(h, j.backends, m, n, f.Context, f.Pinned()), CPUs: h.CPUs, Suite: j.suite, Store: j.store,
		Budget: until, Started: j.started, Decode: slices.Contains(f.objective, "decode"), Prefill: slices.Contains(f.objective, "prefill"),
		Knobs: f.knobs(h), Watch: j.watch, Seed: f.seed, Memory: h.Memory.Available, AllowBusy: f.allowBusy, Progress: j.prog.stage,
	}
}

// tune tunes one arithmetic. What a refusal to judge has seen is reported, since that says why.
func (j *tuneJob) tune(n model.Numerics, until time.Duration) error {
	o := j.options(j.ref, j.model, n, until)
	if dir := j.store.Dir(); dir != "" {
		o.Journal = filepath.Join(dir, "journal-"+string(n.Weights)+".jsonl")
	}
	res, err := session.Tune(j.cmd.Context(), o)
	j.rep.add(string(n.Weights), res)
	switch {
	case errors.Is(err, session.ErrFloor):
		err = fmt.Errorf("%w: %v%s", cli.ErrRefused, err, j.watch.busy())
	case errors.Is(err, measure.ErrVoid):
		err = fmt.Errorf("%w: %v: nothing was written", cli.ErrRefused, err)
	default:
		return err
	}
	j.finish()
	return errors.Join(err, j.rep.write(j.cmd.OutOrStdout(), j.s.JSON))
}

// survey teaches host rules for the formats that the default preset does not have, between a moment
// after the start and the end of the budget.
func (j *tuneJob) survey(from time.Duration) error {
	for i, n := range j.numerics {
		preset, n := session.SurveyModel(n.Weights)
		m, err := engine.Preset(preset)
		if err != nil {
			return err
		}
		until := from + (j.f.budget-from)*time.Duration(i+1)/time.Duration(len(j.numerics))
		o := j.options(runner.Ref{Preset: preset}, m, n, until)
		o.Target.Context = min(o.Target.Context, m.Spec.Context)
		res, err := session.Survey(j.cmd.Context(), o)
		j.rep.survey(res)
		if err != nil {
			return err
		}
	}
	return nil
}

// finish ends the progress display and the report.
func (j *tuneJob) finish() {
	j.prog.done()
	j.rep.finish(j.store, time.Since(j.started))
}

func (j *tuneJob) onClose(f func()) { j.closers = append(j.closers, f) }

// close gives everything back, last taken first.
func (j *tuneJob) close() {
	for _, f := range slices.Backward(j.closers) {
		f()
	}
}
