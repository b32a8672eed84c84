// Package session runs a tune from beginning to end: load a runner, find the noise floor, screen
// candidates in situ, compose the best, confirm it against the default in fresh processes, publish.
package session

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/journal"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/resolve"
	"github.com/tilewright/tilewright/tuner/runner"
)

// Watch says whether something disturbed the machine between two moments.
type Watch interface {
	Mark() any
	Disturbed(mark any) string // why, "" if nothing did
}

// Options of a tune.
type Options struct {
	Ref     runner.Ref
	Target  resolve.Target
	CPUs    []int // to run on
	Suite   *kernel.Suite
	Store   *cache.Store
	Budget  time.Duration // wall-clock, from Started
	Started time.Time
	Decode  bool // objectives
	Prefill bool
	Knobs   kernel.Knobs // of the default arm
	Journal string       // path; "" for none
	Watch   Watch
	Seed    uint64
	Memory  int64 // available, in bytes
	// AllowBusy labels results of a noisy machine instead of refusing.
	AllowBusy bool
	// Progress is told what is being done.
	Progress func(stage, detail string)
}

// ErrFloor is wrapped when the machine is too noisy to judge.
var ErrFloor = errors.New("the machine is too noisy to judge")

// Failure is a candidate that could not be measured.
type Failure struct {
	Backend string `json:"backend"`
	Config  string `json:"config"`
	Class   string `json:"class"`
	Detail  string `json:"detail"`
}

// Verdict is what was decided for a phase, or for a class of weights in a phase.
type Verdict struct {
	Phase    string        `json:"phase"`
	Weights  string        `json:"weights"`
	Problem  string        `json:"problem"` // a class, or "whole"
	Default  *float64      `json:"default"` // tok/s of the whole phase; seconds of a class
	Winner   *float64      `json:"winner"`
	Config   kernel.Config `json:"config"` // of the class; of the whole, the knobs that stand in the phase
	Ratio    measure.Ratio `json:"ratio"`
	Decision string        `json:"decision"`
	Why      string        `json:"why"`
	Finalist bool          `json:"finalist,omitempty"` // chosen in situ; the verdict on the whole decides
	Kept     int           `json:"kept,omitempty"`     // of Pairs of fresh processes, undisturbed
	Pairs    int           `json:"pairs,omitempty"`
}

// Result of a tune.
type Result struct {
	Floor    measure.Floor            // of decode; of prefill where only that was asked for
	Floors   map[string]measure.Floor // by phase
	Sabotage *measure.Sabotage        // nil if there was no confirmation
	Blocks   []Blocks
	Verdicts []Verdict
	Failures []Failure
	Written  int
	Loaded   runner.Loaded
}

// Phases.
const (
	phaseDecode  = "decode"
	phasePrefill = "prefill"
)

// shares of the budget that remains after loading. The confirmation gets what three pairs of fresh
// processes take, at least a third.
const (
	shareFloor = 0.06
	// Passes of a prompt are long: with less time they are too short to stand for pp512.
	sharePrefillFloor = 0.10
	shareKnobs        = 0.06
	shareConfirm      = 0.35
)

type tune struct {
	Options
	lab      *lab
	classes  []model.Class
	journal  *journal.Journal
	deadline time.Time
	res      Result
	asked    map[string]bool   // phases
	aside    map[string]string // phases that cannot be judged, and why

	mu      sync.Mutex                  // of best and res, while searches run
	tuned   *planner                    // of the composed arm
	knobs   kernel.Knobs                // of the composed arm
	best    map[pointID]screened        // winners of the screening
	layouts map[model.Key]kernel.Layout // of the composed arm, where they differ
	// layoutGain is what the layouts gained in situ, both phases together, in ln.
	layoutGain map[model.Key]float64

	ppRate   float64 // tok/s of the default, about, to plan by
	tgRate   float64
	skipped  bool             // no time to screen
	searched map[pointID]bool // where at least one block was measured
	short    bool             // the confirmation under way is the check of a stored arm
	vetting  sync.Mutex
	deaths   map[string]int    // that backends outlived before this tune
	knows    *knowledge        // nil until it was asked for
	keeping  string            // phase whose stored winner keeps the layouts as they are
	dropped  map[string]string // phases whose stored winner is not carried over, and why
}

// pointID is a class at a tuning point.
type pointID struct {
	class model.Key
	m     int
}

// newTune prepares a tune.
func newTune(o Options) *tune {
	t := &tune{Options: o, deadline: o.Started.Add(o.Budget), best: map[pointID]screened{}, knobs: o.Knobs,
		asked: map[string]bool{phaseDecode: o.Decode, phasePrefill: o.Prefill}, aside: map[string]string{},
		layouts: map[model.Key]kernel.Layout{}, layoutGain: map[model.Key]float64{}, searched: map[pointID]bool{}, dropped: map[string]string{}}
	t.res.Floors = map[string]measure.Floor{}
	t.res.Floor = t.floorOf(phaseDecode)
	tell := o.Progress
	count := &tallied{Watch: o.Watch, busy: o.AllowBusy, res: &t.res}
	t.Watch = count
	t.Progress = func(stage, detail string) {
		count.stage = stage
		if tell != nil {
			tell(stage, detail)
		}
	}
	t.Suite, t.deaths = t.told(o.Suite), outlived(o.Suite)
	plan := newPlanner(t.Suite, o.Target.Numerics.Weights)
	plan.made.failed = func(c kernel.Choice, err error) { t.lost(c.Backend, c.Config.String(), err) }
	t.lab = newLab(plan, count,
		runner.Load{Model: o.Ref, Numerics: o.Target.Numerics, Context: o.Target.Context, Knobs: o.Knobs,
			CPUs: o.CPUs, Host: o.Target.Host.Features})
	return t
}

// Tune runs the tune. A budget that is too small ends in `no winner`, not in an error.
func Tune(ctx context.Context, o Options) (Result, error) {
	t := newTune(o)
	defer t.lab.close()
	var err error
	if t.classes, err = o.Target.Model.Classes(o.Target.Numerics); err != nil {
		return t.result(), err
	}
	if err := t.openJournal(); err != nil {
		return t.result(), err
	}
	defer t.closeJournal()
	err = t.run(ctx)
	return t.result(), err
}

func (t *tune) run(ctx context.Context) error {
	c, err := t.measure(ctx)
	t.lab.close()
	return t.conclude(ctx, c, err)
}

// conclude publishes what was measured, or says why there is nothing to publish.
func (t *tune) conclude(ctx context.Context, c confirmation, err error) error {
	switch {
	case errors.Is(err, errBudget): // nothing is known that could be kept
		t.unjudged()
		return nil
	case errors.Is(err, ErrFloor):
		t.unjudged()
		return err
	case errors.Is(err, measure.ErrVoid): // what was measured is not to be used again
		return errors.Join(err, t.finish())
	case err != nil:
		return err
	}
	return t.publish(ctx, c)
}

// measure is all of a tune but the writing.
func (t *tune) measure(ctx context.Context) (confirmation, error) {
	var none confirmation
	until, stop := t.within(ctx)
	defer stop()
	for _, c := range t.classes { // before stored layouts take their place; what fails here fails with its reason in loading
		if _, err := t.lab.plan.standardLayout(until, c.Format); until.Err() != nil {
			return none, overtaken(until, err)
		}
	}
	if err := t.keepLayouts(until); err != nil {
		return none, overtaken(until, err)
	}
	t.Progress("load", t.Target.Model.Spec.Name)
	r, err := t.lab.runner(until)
	if err != nil {
		return none, overtaken(until, err)
	}
	t.res.Loaded = t.lab.loaded
	if err := t.floor(until, r); err != nil {
		return none, err
	}
	if c, done, err := t.revalidate(ctx); done || err != nil {
		return c, err
	}
	if t.left() > stat.MinPairs*t.duelTakes()+reserve { // else what the screening finds could not be confirmed
		if err := t.explore(until); errors.Is(err, errBudget) {
			t.skipped = true
		} else if err != nil {
			return none, err
		} else if len(t.searched) == 0 && !t.changed() {
			t.skipped = true
		}
	} else {
		t.skipped = true
	}
	t.lab.close() // its memory and its threads are in the way of what follows
	return t.confirm(ctx)
}

// explore composes an arm from what gains in situ.
func (t *tune) explore(ctx context.Context) error {
	if err := t.screen(ctx); err != nil {
		return overtaken(ctx, err)
	}
	return overtaken(ctx, t.screenKnobs(ctx))
}

// unjudged reports phases that nothing is known about, or only why they were set aside.
func (t *tune) unjudged() {
	for _, phase := range []string{phaseDecode, phasePrefill} {
		why := t.aside[phase]
		if why == "" {
			why = measure.WhyBudget
		}
		if t.asked[phase] {
			t.res.Verdicts = append(t.res.Verdicts, Verdict{Phase: phase, Weights: string(t.Target.Numerics.Weights), Problem: "whole",
				Config: knobConfig(phase, t.Knobs), Ratio: unknown(), Decision: string(measure.NoWinner), Why: why})
		}
	}
}

// unknown is the ratio of what was not measured.
func unknown() measure.Ratio {
	return measure.Ratio{Median: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1)}
}

func (t *tune) now() time.Time { return t.lab.now() }

func (t *tune) left() time.Duration { return t.until(t.deadline) }

// until is the time from now to a moment.
func (t *tune) until(end time.Time) time.Duration { return end.Sub(t.now()) }
