package session

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
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
	{m: 512, test: bench.Test{Prompt: 512}, repeat: 1, share: 0.42, prefill: true},
	{m: 64, test: bench.Test{Prompt: 64}, repeat: 1, share: 0.10, prefill: true},
	{m: 16, test: bench.Test{Prompt: 16}, repeat: 1, share: 0.07, prefill: true},
	{m: 4, test: bench.Test{Prompt: 4}, repeat: 1, share: 0.07, prefill: true},
}

// screened is the best configuration of a class at a tuning point, and its log-gain in situ.
type screened struct {
	Choice kernel.Choice `json:"choice"`
	Gain   float64       `json:"gain"`
	Blocks int           `json:"blocks"`
}

// candidates is how many configurations of a class are tried at most.
const candidates = 160

// smallGain is what a configuration must gain in situ, in ln, to replace the default at a tuning
// point that no confirmation covers.
const smallGain = 0.03

func (t *tune) screen(ctx context.Context) error {
	total := t.left() - t.confirmNeeds() - time.Duration(shareKnobs*float64(t.left()))
	var on []stage
	sum := 0.0
	for _, s := range stages {
		if s.prefill && t.Prefill || !s.prefill && t.Decode {
			on = append(on, s)
			sum += s.share
		}
	}
	for _, s := range on {
		end := time.Now().Add(time.Duration(float64(total) * s.share / sum))
		if err := t.screenStage(ctx, s, end); err != nil {
			return fmt.Errorf("screen M=%d: %w", s.m, err)
		}
	}
	return nil
}

// screenStage searches all classes at one tuning point at once.
func (t *tune) screenStage(ctx context.Context, s stage, end time.Time) error {
	a := &arena{lab: t.lab, test: s.test, m: s.m, warm: s.warm, repeat: s.repeat,
		classes: map[string]model.Class{}}
	defaults := map[string]kernel.Choice{}
	a.choice = func(class string, c kernel.Config) kernel.Choice {
		d := defaults[class]
		d.Config = c
		return d
	}
	var searches []insitu.Search
	for _, c := range t.classes {
		if c.Format.IsFloat() || c.Role == string(model.RoleHead) && s.m != 1 {
			continue
		}
		sr, def, err := t.search(ctx, a, c, s, end)
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			return err
		}
		a.classes[c.String()], defaults[c.String()] = c, def
		searches = append(searches, sr)
	}
	last, longest := time.Now(), t.takes(bench.Test{Prompt: s.test.Prompt, Gen: 3 * s.test.Gen})
	more := func() error { // a round that would not end in time is not started
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
		if now.Add(longest).After(end) {
			return search.ErrBudget
		}
		return nil
	}
	t.Progress("screen", fmt.Sprintf("M=%d, %d kinds of weights", s.m, len(searches)))
	if err := insitu.Run(ctx, a, searches, more); err != nil {
		return err
	}
	return t.restore(ctx, a, defaults)
}

// search prepares the search of one class: its space, its strategy, what the journal knows.
func (t *tune) search(ctx context.Context, a *arena, c model.Class, s stage, end time.Time) (insitu.Search, kernel.Choice, error) {
	none := insitu.Search{}
	l, err := t.lab.plan.Layout(ctx, c)
	if err != nil {
		return none, kernel.Choice{}, err
	}
	prob := c.Problem(t.Target.Numerics.Weights, s.m, l)
	def, err := t.lab.plan.Choice(ctx, prob)
	if err != nil {
		return none, def, err
	}
	space, err := t.Suite.Backends[def.Backend].Space(ctx, t.Suite.Host, prob)
	if err != nil {
		return none, def, err
	}
	strat, err := search.NewDefault(space, t.seed(c, s), candidates)
	if err != nil {
		return none, def, err
	}
	id := pointID{c.Key(), s.m}
	batches := 0
	for {
		var rs []search.Result
		if !t.done("batch", fmt.Sprintf("%s m%d %d", c, s.m, batches), &rs) {
			break
		}
		strat.Tell(rs)
		batches++
	}
	run := func(src search.Source) error {
		vetted := &vetting{t: t, ctx: ctx, src: src, def: def, end: end, failed: map[string]string{}}
		err := search.Run(strat, def.Config, vetted, search.RunOptions{Batch: search.DefaultBatch, Race: search.RaceOptions{Seed: t.seed(c, s)},
			Seen: func(rs []search.Result) {
				rs = slices.DeleteFunc(slices.Clone(rs), func(r search.Result) bool { return r.Blocks == 0 && r.Failure == "" })
				t.add("batch", fmt.Sprintf("%s m%d %d", c, s.m, batches), rs)
				batches++
			}})
		t.note(c, def, strat, id)
		return err
	}
	layers := c.Layers
	if len(layers) == 0 {
		layers = []int{-1}
	}
	return insitu.Search{Class: insitu.Class{Name: c.String(), Layers: layers}, Run: run}, def, nil
}

// seed differs between searches that share a step, so that they do not move in lock-step.
func (t *tune) seed(c model.Class, s stage) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", t.Seed, c, s.m)
	return h.Sum64()
}

// note remembers the best of a search, if it gained at all, and its failures.
func (t *tune) note(c model.Class, def kernel.Choice, strat search.Strategy, id pointID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := Verdict{Phase: phaseOf(id.m), Weights: string(t.Target.Numerics.Weights), Problem: fmt.Sprintf("%s m%d", c, id.m),
		Config: def.Config, Ratio: measure.Ratio{Median: 1, Lo: math.Inf(-1), Hi: math.Inf(1)},
		Decision: string(measure.NoWinner), Why: "no candidate beat the default in situ"}
	for _, r := range strat.Best(1) {
		if slices.Equal([]string{r.Config.String()}, []string{def.Config.String()}) || r.Score <= 0 {
			break
		}
		ch := def
		ch.Config = r.Config
		t.best[id] = screened{Choice: ch, Gain: r.Score, Blocks: r.Blocks}
		v.Config, v.Ratio.Median = r.Config, math.Exp(r.Score)
		v.Finalist, v.Why = true, fmt.Sprintf("gains in situ over %d blocks", r.Blocks)
	}
	t.res.Verdicts = append(t.res.Verdicts, v)
}

func phaseOf(m int) string {
	if m == 1 {
		return phaseDecode
	}
	return phasePrefill
}

// restore puts the default back in every layer, so that the next stage starts from it.
func (t *tune) restore(ctx context.Context, a *arena, defaults map[string]kernel.Choice) error {
	var as []insitu.Assignment
	for name, c := range a.classes {
		layers := max(1, len(c.Layers))
		x := insitu.Assignment{Class: name}
		for range layers {
			x.Config = append(x.Config, defaults[name].Config)
		}
		as = append(as, x)
	}
	return a.put(ctx, as)
}

// vetting stands between a search and the steps: a candidate that cannot be emitted, computes wrong
// numbers or crashes alone never reaches the loaded runner.
type vetting struct {
	t      *tune
	ctx    context.Context
	src    search.Source
	def    kernel.Choice
	end    time.Time
	failed map[string]string // by configuration, "" for good
}

// Measure vets new arms, then measures those that passed.
func (v *vetting) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	failures := map[int]string{}
	var good []int
	for _, i := range order {
		why, err := v.vet(arms[i])
		if err != nil {
			return search.Block{}, err
		}
		if why != "" && i > 0 {
			failures[i] = why
			continue
		}
		good = append(good, i)
	}
	b, err := v.src.Measure(arms, good)
	if err != nil {
		return b, err
	}
	if b.Failures == nil {
		b.Failures = map[int]string{}
	}
	for i, why := range failures {
		b.Failures[i] = why
	}
	for i, why := range b.Failures {
		if key := arms[i].String(); v.failed[key] == "" {
			v.failed[key] = why
			v.t.fail(v.def, arms[i], "crash", why)
		}
	}
	return b, nil
}

func (v *vetting) vet(c kernel.Config) (string, error) {
	key := c.String()
	if why, seen := v.failed[key]; seen {
		return why, nil
	}
	if !time.Now().Before(v.end) {
		return "", search.ErrBudget
	}
	why := ""
	if err := v.t.vet(v.ctx, v.def, c); err != nil {
		if v.ctx.Err() != nil {
			return "", v.ctx.Err()
		}
		why = err.Error()
		class := "refused"
		var crash *runner.Crash
		if errors.As(err, &crash) {
			class = "crash"
		}
		v.t.fail(v.def, c, class, why)
	}
	v.failed[key] = why
	return why, nil
}

func (t *tune) fail(def kernel.Choice, c kernel.Config, class, why string) {
	slog.Info("candidate failed", "problem", def.Problem, "config", c, "why", why)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.res.Failures = append(t.res.Failures, Failure{Backend: def.Backend, Config: c.String(), Class: class, Detail: def.Problem.String() + ": " + why})
}

// vet emits a candidate for the real problem, and checks a twin of it for few channels, but the same
// reduction length, against the oracle.
func (t *tune) vet(ctx context.Context, def kernel.Choice, c kernel.Config) error {
	t.vetting.Lock() // one probe process serves all searches
	defer t.vetting.Unlock()
	ch := def
	ch.Config = c
	art, err := t.lab.plan.Artifact(ctx, ch)
	if err != nil {
		return err
	}
	if why := t.lab.bad[artifactID(art)]; why != "" {
		return errors.New(why)
	}
	small := ch
	nr := small.Problem.Layout.NR()
	small.Problem.N = min(small.Problem.N, nr*(max(1, art.Exec.Streams)+2)-1)
	if f := small.Problem.Format; f.Group > 0 {
		small.Problem.K = min(small.Problem.K, 8*f.Group)
	}
	twin, err := t.Suite.Emit(ctx, small)
	if err != nil {
		return err
	}
	return t.lab.check(ctx, twin)
}
