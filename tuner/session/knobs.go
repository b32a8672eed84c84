package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// knob is one setting of the engine that is raced by itself, the others as the arm has them.
type knob struct {
	name   string
	phase  string // phaseLoad: judged by the time to pack a layer
	values func(t *tune) []int
	field  func(k *kernel.Knobs) *int
	test   bench.Test
}

const phaseLoad = "load"

var knobs = []knob{
	{"threads_decode", phaseDecode, threadCounts, func(k *kernel.Knobs) *int { return &k.ThreadsDecode }, bench.Test{Gen: 8, Depth: 128}},
	{"threads_prefill", phasePrefill, threadCounts, func(k *kernel.Knobs) *int { return &k.ThreadsPrefill }, bench.Test{Prompt: 128}},
	{"panel_min_m", phasePrefill, fixed(33, 65, 129), func(k *kernel.Knobs) *int { return &k.PanelMinM }, bench.Test{Prompt: 96}},
	{"prefill_chunk", phasePrefill, fixed(256, 512), func(k *kernel.Knobs) *int { return &k.PrefillChunk }, bench.PP512},
	{"repack_rows", phaseLoad, fixed(16, 64, 256, 1024), func(k *kernel.Knobs) *int { return &k.RepackRows }, bench.Test{}},
}

func fixed(vs ...int) func(*tune) []int { return func(*tune) []int { return vs } }

// threadCounts are 1, half, all but one and all of the threads.
func threadCounts(t *tune) []int {
	p := max(t.Knobs.ThreadsDecode, t.Knobs.ThreadsPrefill)
	vs := []int{1, (p + 1) / 2, p - 1, p}
	slices.Sort(vs)
	return slices.DeleteFunc(slices.Compact(vs), func(v int) bool { return v < 1 })
}

// screenKnobs races the values of each knob against the default, one knob at a time, within its
// share of the time. A value that gains replaces the default in the composed arm.
func (t *tune) screenKnobs(ctx context.Context) error {
	end := t.now().Add(min(time.Duration(shareKnobs*float64(t.Budget)), t.left()-3*t.duelTakes()-reserve))
	r, err := t.lab.runner(ctx)
	if err != nil {
		return err
	}
	return t.raceKnobs(ctx, r, end)
}

func (t *tune) raceKnobs(ctx context.Context, r process, end time.Time) error {
	for i, k := range knobs {
		on := k.phase == phaseDecode && t.Decode || k.phase == phasePrefill && t.Prefill || k.phase == phaseLoad && t.Ref.Path != ""
		if _, pinned := t.Target.Pinned["threads"]; pinned && strings.HasPrefix(k.name, "threads") {
			continue // the user fixed them
		}
		if !on || !t.now().Before(end) {
			continue
		}
		until := t.now().Add(t.until(end) / time.Duration(len(knobs)-i))
		err := t.race(ctx, &knobSource{t: t, ctx: ctx, r: r, k: k, until: until})
		var crash *runner.Crash
		if errors.As(err, &crash) { // the knob keeps its default; what follows runs in fresh processes
			slog.Warn("knob not raced further", "knob", k.name, "why", crash)
			return nil
		}
		if err != nil {
			return fmt.Errorf("knob %s: %w", k.name, err)
		}
	}
	return r.SetKnobs(ctx, t.Knobs)
}

// knobConfig are the knobs of a phase as a configuration.
func knobConfig(phase string, k kernel.Knobs) kernel.Config {
	out := kernel.Config{}
	for _, x := range knobs {
		if x.phase == phase {
			out[x.name] = int64(*x.field(&k))
		}
	}
	return out
}

// heat is what the race of a knob gave: the values that act, and how they did.
type heat struct {
	Inert  []int      `json:"inert,omitempty"` // values that run what the control or another value runs
	Values []standing `json:"values,omitempty"`
}

// standing is a value's log-gain over the control, with a bound that holds at every look.
type standing struct {
	Value  int     `json:"value"`
	Gain   float64 `json:"gain"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	Blocks int     `json:"blocks"`
}

// race races the values of one knob that act.
func (t *tune) race(ctx context.Context, s *knobSource) error {
	k := s.k
	control := *k.field(&t.knobs)
	values := slices.DeleteFunc(slices.Clone(k.values(t)), func(v int) bool { return v == control })
	if len(values) == 0 {
		return nil
	}
	var h heat
	if !t.done("heat", k.name, &h) {
		t.Progress("knob", k.name)
		var err error
		if values, h.Inert, err = s.acting(control, values); err == nil {
			h.Values, err = s.compete(control, values)
		}
		if err != nil && !errors.Is(err, search.ErrBudget) {
			return overtaken(ctx, err)
		}
		t.add("heat", k.name, h)
	}
	t.noteKnob(k, control, h)
	return nil
}

// noteKnob puts the best value into the composed arm and reports the race. What acts on a phase is
// confirmed later, so a mean gain is enough; what acts on loading is not, so the gain must be sure.
func (t *tune) noteKnob(k knob, control int, h heat) {
	best := standing{Value: control, Lo: -unbounded, Hi: unbounded}
	for _, x := range h.Values {
		sure := k.phase != phaseLoad || x.Lo > math.Log1p(measure.Margin)
		if x.Blocks >= 3 && sure && x.Gain > max(best.Gain, smallGain) {
			best = x
		}
	}
	*k.field(&t.knobs) = best.Value
	v := Verdict{Phase: k.phase, Weights: string(t.Target.Numerics.Weights), Problem: "knob " + k.name, Config: kernel.Config{k.name: int64(best.Value)},
		Ratio:    measure.Ratio{Median: math.Exp(best.Gain), Lo: known(best.Lo), Hi: known(best.Hi)},
		Decision: string(measure.NoWinner), Why: "no value gains"}
	switch {
	case best.Value != control:
		v.Finalist, v.Why = true, fmt.Sprintf("gains in %d blocks", best.Blocks)
	case len(h.Values) == 0 && len(h.Inert) > 0:
		v.Why = measure.WhyInert
	case len(h.Values) == 0:
		v.Why, v.Ratio = measure.WhyBudget, unknown()
	}
	if len(h.Inert) > 0 && v.Why != measure.WhyInert {
		v.Why += fmt.Sprintf("; inert: %v", h.Inert)
	}
	t.res.Verdicts = append(t.res.Verdicts, v)
}

// unbounded stands for a log-gain without bound, which JSON cannot hold.
const unbounded = 700

// known is the ratio of a bound of a log-gain, infinite for none.
func known(x float64) float64 {
	if math.Abs(x) >= unbounded {
		return math.Inf(int(x))
	}
	return math.Exp(x)
}
