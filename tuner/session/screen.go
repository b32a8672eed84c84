package session

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// stage is a part of the screening: one tuning point of M, and its share of the screening's time.
type stage struct {
	m            int
	test         bench.Test
	warm, repeat int
	share        float64
	prefill      bool
}

// stages of the screening. Decode runs at a real context, prefill from an empty one.
var stages = []stage{
	{m: 1, test: bench.Test{Gen: 1, Depth: 128}, warm: 1, repeat: 2, share: 0.34},
	{m: 512, test: bench.Test{Prompt: panelRows}, repeat: 1, share: 0.42, prefill: true},
	{m: 64, test: bench.Test{Prompt: 64}, repeat: 1, share: 0.10, prefill: true},
	{m: 16, test: bench.Test{Prompt: 16}, repeat: 1, share: 0.07, prefill: true},
	{m: 4, test: bench.Test{Prompt: 4}, repeat: 1, share: 0.07, prefill: true},
}

// panelRows is the length of the passes that search the kernels of panels, tuning point 512: these run
// from PanelMinM rows on, so a pass need not be one of 512, and one of 192 leaves the search 2.7 times
// as many steps. The confirmation's are of 512.
const panelRows = 192

// screened is the best configuration of a class at a tuning point, and the log-gain in situ that new
// data make sure of.
type screened struct {
	Choice kernel.Choice
	Sure   float64
}

// candidates is how many configurations of a class are tried at most.
const candidates = 160

// smallGain is what a configuration must surely gain in situ, in ln, to replace the default at a tuning
// point that no confirmation covers.
const smallGain = 0.03

// clear reports whether a gain may be relied on without a confirmation. Where nothing gains, hardly a
// search is (TestNothingIsFound of package search).
func (s screened) clear() bool { return s.Sure > smallGain }

// stands reports whether what was found for a tuning point takes part in the composed arm: the confirmation
// runs it, or it needs none.
func (s screened) stands(m int) bool { return m == 1 || m == 512 || s.clear() }

func (t *tune) screen(ctx context.Context) error {
	if err := t.keepAside(ctx); err != nil {
		return err
	}
	layouts := time.Duration(shareLayouts * float64(t.left()))
	if t.keeping != "" {
		layouts = 0
	}
	total := t.left() - t.confirmNeeds() - time.Duration(shareKnobs*float64(t.left())) - layouts
	var on []stage
	sum := 0.0
	for _, s := range stages {
		if s.prefill && t.Prefill || !s.prefill && t.Decode {
			on = append(on, s)
			sum += s.share
		}
	}
	for _, s := range on {
		end := t.now().Add(time.Duration(float64(total) * s.share / sum))
		if err := t.screenStage(ctx, s, end); err != nil {
			return fmt.Errorf("screen M=%d: %w", s.m, err)
		}
	}
	if t.keeping != "" {
		t.Progress("layouts", "not searched: the stored winner of "+t.keeping+" reads the weights as they lie")
		return nil
	}
	if err := t.screenLayouts(ctx, t.now().Add(layouts)); err != nil {
		return fmt.Errorf("screen layouts: %w", err)
	}
	return nil
}

// screenStage searches all classes at one tuning point, those that share no region at once.
func (t *tune) screenStage(ctx context.Context, s stage, end time.Time) error {
	var cs []model.Class
	for _, c := range t.classes {
		if !c.Format.IsFloat() && covers(c, s.m) {
			sq, err := t.square(c)
			if err != nil {
				return err
			}
			cs = append(cs, sq)
		}
	}
	rs := rounds(cs)
	for i, r := range rs {
		left := 0.0
		for _, later := range rs[i:] {
			left += weight(later)
		}
		until := t.now().Add(time.Duration(float64(t.until(end)) * weight(r) / left))
		if err := t.screenRound(ctx, s, r, until); err != nil {
			return err
		}
	}
	return nil
}

func (t *tune) screenRound(ctx context.Context, s stage, classes []model.Class, end time.Time) error {
	a := t.newArena(s, end)
	var searches []insitu.Search
	for _, c := range classes {
		q, err := t.questOf(ctx, c, s.m)
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			return err
		}
		sr, err := t.search(ctx, a, q)
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			return err
		}
		searches = append(searches, sr)
	}
	t.Progress("screen", fmt.Sprintf("M=%d, %d kinds of weights", s.m, len(searches)))
	if err := insitu.Run(ctx, a, searches, t.inTime(end, a.test)); err != nil {
		return err
	}
	return a.restore(ctx)
}

func (t *tune) newArena(s stage, end time.Time) *arena {
	if s.m == 512 { // fewer rows would run the kernels of another point
		s.test.Prompt = min(max(s.test.Prompt, t.Knobs.PanelMinM), bench.PP512.Prompt)
	}
	return &arena{lab: t.lab, test: s.test, m: s.m, warm: s.warm, repeat: s.repeat, end: end,
		classes: map[string]model.Class{}, defaults: map[string]kernel.Choice{},
		patience: t.patience(bench.Test{Prompt: s.test.Prompt + s.test.Depth, Gen: s.test.Gen * (s.warm + s.repeat)})}
}

// steps is about how many in-situ steps fit until the end of an arena.
func (t *tune) steps(a *arena) int {
	one := t.takes(bench.Test{Prompt: a.test.Prompt, Gen: a.test.Gen * (a.warm + a.repeat)})
	return int(t.until(a.end) / max(one, 1))
}

// patience is how long a workload may take before it counts as hung.
func (t *tune) patience(w bench.Test) time.Duration { return max(15*time.Second, 30*t.takes(w)) }

// inTime stops searches before a round that would not end in time.
func (t *tune) inTime(end time.Time, w bench.Test) func() error {
	last, longest := t.now(), t.takes(bench.Test{Prompt: w.Prompt, Gen: 3 * w.Gen})
	return func() error {
		now := t.now()
		longest, last = max(longest, now.Sub(last)), now
		if now.Add(longest).After(end) {
			return search.ErrBudget
		}
		return nil
	}
}

// quest is what a search looks for: configurations of a class at a tuning point in one layout.
type quest struct {
	name  string // of the class in the arena
	class model.Class
	def   kernel.Choice // the control
	limit int           // configurations to try
	hints []kernel.Config
	seed  uint64
	done  func(best *search.Result, searched bool) // nil if nothing beat the control; whether any block was measured
}

// questOf is the search of a class in its present layout.
func (t *tune) questOf(ctx context.Context, c model.Class, m int) (quest, error) {
	l, err := t.lab.plan.Layout(ctx, c)
	if err != nil {
		return quest{}, err
	}
	q := quest{name: c.String(), class: c, limit: candidates, seed: t.seed(c.String(), m)}
	if q.def, err = t.lab.plan.Choice(ctx, c.Problem(t.Target.Numerics.Weights, m, l)); err != nil {
		return q, err
	}
	q.hints = t.hints(c, q.def)
	q.done = func(best *search.Result, searched bool) { t.note(c, q.def, best, pointID{c.Key(), m}, searched) }
	return q, nil
}

// search prepares a search and gives its class a place in the arena.
func (t *tune) search(ctx context.Context, a *arena, q quest) (insitu.Search, error) {
	none := insitu.Search{}
	space, err := t.space(ctx, q.def)
	if err != nil {
		return none, err
	}
	strat, err := search.NewDefault(space, q.seed, q.limit)
	if err != nil {
		return none, err
	}
	strat = &hinted{strat, slices.DeleteFunc(q.hints, func(c kernel.Config) bool { return space.Check(c) != nil })}
	a.classes[q.name], a.defaults[q.name] = q.class, q.def
	layers := runner.LayersOf(q.class)
	run := func(src search.Source) error {
		vetted := &vetting{t: t, ctx: ctx, src: src, def: q.def, end: a.end, failed: map[string]string{}}
		rec := &recorded{t: t, src: vetted, name: fmt.Sprintf("%s m%d", q.name, a.m), def: q.def}
		start := t.now()
		best, err := search.Pick(strat, q.def.Config, rec, search.RunOptions{
			Batch: rec.batch(search.Batch(strat, t.steps(a), len(layers))), Race: search.RaceOptions{Seed: q.seed}, Keep: search.FinalShare,
			Left: func() float64 { return rec.left(t.until(a.end).Seconds() / a.end.Sub(start).Seconds()) }})
		q.done(best, rec.got > 0)
		return err
	}
	return insitu.Search{Class: insitu.Class{Name: q.name, Layers: layers}, Run: run}, nil
}

// seed differs between searches that share a step, so that they do not move in lock-step.
func (t *tune) seed(name string, m int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", t.Seed, name, m)
	return h.Sum64()
}

// note remembers the best of a search, if it gained at all, and its failures.
func (t *tune) note(c model.Class, def kernel.Choice, best *search.Result, id pointID, searched bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := Verdict{Phase: phaseOf(id.m), Weights: string(t.Target.Numerics.Weights), Problem: fmt.Sprintf("%s m%d", c, id.m),
		Config: def.Config, Ratio: measure.Ratio{Median: 1, Lo: math.Inf(-1), Hi: math.Inf(1)},
		Decision: string(measure.NoWinner), Why: "no candidate beat the default in situ"}
	if !searched {
		v.Why, v.Ratio = measure.WhyBudget, unknown()
	} else {
		t.searched[id] = true
	}
	if best != nil {
		ch := def
		ch.Config = best.Config
		found := screened{ch, best.Sure}
		v.Config, v.Ratio.Median = best.Config, math.Exp(best.Score)
		v.Why = fmt.Sprintf("gains in situ over %d blocks", best.Blocks)
		if best.Blocks == 0 {
			v.Why = "gains in situ; no time for new data"
		}
		if v.Finalist = found.stands(id.m); v.Finalist {
			t.best[id] = found
		} else {
			v.Why += "; not surely more than 3%, and no confirmation runs it: the default stays"
		}
		if with := t.shares(c); with != "" {
			v.Why += ", timed with the whole of its region, " + with
		}
	}
	t.res.Verdicts = append(t.res.Verdicts, v)
}

func phaseOf(m int) string {
	if m == 1 {
		return phaseDecode
	}
	return phasePrefill
}
