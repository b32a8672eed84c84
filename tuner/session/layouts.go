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
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// A layout belongs to a tensor class, so decode and prefill are judged together: the class's layers
// are cut in two halves, one is repacked into the other layout, both phases are timed, then the halves
// change places. The mean of the two differences is one pair: what a layer costs more than another,
// and what the moment costs, cancel.
const (
	shareLayouts     = 0.10      // of the time left when the screening starts
	roomLayouts      = 256 << 20 // bytes of weights that are moved at most
	layoutCandidates = 24        // configurations tried in another layout
	layoutPairs      = 6
	layoutGain       = 0.01 // what the phases must gain together, in ln
	layoutHopeless   = 0.04 // a mean loss of the pairs so far at which a layout is given up
)

// layoutStages are the phases that a layout is judged by. A short prompt serves: from 129 rows on the
// kernels of M=512 run.
var layoutStages = []stage{
	{m: 1, test: bench.Test{Gen: 1, Depth: 128}, warm: 1, repeat: 4},
	{m: 512, test: bench.Test{Prompt: 160}, repeat: 1, prefill: true},
}

// screenLayouts tries the other layouts of every class until the time is up, one layout at a time.
func (t *tune) screenLayouts(ctx context.Context, end time.Time) error {
	var cs []model.Class
	for _, c := range t.classes {
		if !c.Format.IsFloat() && !t.hasTwin(c) {
			sq, err := t.square(c)
			if err != nil {
				return err
			}
			cs = append(cs, sq)
		}
	}
	var all [][]*layoutTrial // trials that run side by side
	for _, round := range rounds(cs) {
		for k := 1; ; k++ {
			trials, err := t.layoutTrials(ctx, round, k)
			if err != nil {
				return err
			}
			if trials == nil {
				break
			}
			all = append(all, trials)
		}
	}
	for i, trials := range all {
		if len(trials) == 0 { // none fits
			continue
		}
		until := time.Now().Add(time.Until(end) / time.Duration(len(all)-i))
		if need := t.layoutNeeds(trials) + time.Duration(len(trials))*vetTakes; time.Now().Add(need).After(until) {
			until = time.Now().Add(need) // at the cost of the later ones
		}
		if until.After(end) {
			t.Progress("layouts", "no time for "+trials[0].to.String())
			t.noteLayouts(trials, measure.WhyBudget)
			continue
		}
		err := t.tryLayout(ctx, trials, until)
		if errors.Is(err, errNoDefault) {
			t.noteLayouts(trials, err.Error())
		} else if err != nil {
			return err
		}
	}
	return t.lab.unlay(ctx)
}

// hasTwin reports whether another class has the same shape and format: a problem does not tell them
// apart, so they cannot lie differently.
func (t *tune) hasTwin(c model.Class) bool {
	return slices.ContainsFunc(t.classes, func(d model.Class) bool { return !c.Same(d) && holds(d, c.Problem(model.F32, 1, kernel.Layout{})) })
}

// layoutNeeds is about how long the fewest pairs that count take.
func (t *tune) layoutNeeds(trials []*layoutTrial) time.Duration {
	return stat.MinPairs * t.layoutPairTakes(trials)
}

// packRate is a cautious guess of weights repacked a second.
const packRate = 1e9

// vetTakes is about how long a class's configurations take to be vetted before a trial.
const vetTakes = 300 * time.Millisecond

func (t *tune) layoutPairTakes(trials []*layoutTrial) time.Duration {
	n := 0.0
	for _, x := range trials {
		n += float64(x.class.N) * float64(x.class.K) * float64(max(1, len(x.halves[0])+len(x.halves[1])))
	}
	d := time.Duration(2 * n / packRate * float64(time.Second))
	for _, s := range layoutStages {
		d += 2 * t.takes(bench.Test{Prompt: s.test.Prompt, Gen: s.test.Gen * (s.warm + s.repeat)})
	}
	return d
}

// tryLayout searches configurations in the other layout, then measures pairs.
func (t *tune) tryLayout(ctx context.Context, trials []*layoutTrial, end time.Time) error {
	t.Progress("layouts", fmt.Sprintf("%s for %d kinds of weights", trials[0].to, len(trials)))
	all := trials
	for _, x := range trials {
		if err := t.begin(ctx, x); err != nil {
			return err
		}
	}
	trials = slices.DeleteFunc(slices.Clone(trials), func(x *layoutTrial) bool { return !x.in() })
	spend := time.Until(end) - t.layoutNeeds(trials)
	for _, x := range trials {
		if err := t.lab.lay(ctx, x.part(0), x.to); err != nil {
			return err
		}
	}
	for i, s := range layoutStages {
		if err := t.searchLayout(ctx, trials, s, time.Now().Add(spend/2/time.Duration(len(layoutStages)-i))); err != nil {
			return err
		}
		spend = time.Until(end) - t.layoutNeeds(trials)
	}
	took := time.Duration(0)
	for pair := range layoutPairs {
		start := time.Now()
		if start.Add(took).After(end) || !slices.ContainsFunc(trials, (*layoutTrial).in) {
			break
		}
		if err := t.layoutPair(ctx, trials, pair); err != nil {
			return err
		}
		took = max(took, time.Since(start))
	}
	t.noteLayouts(all, "")
	return nil
}

func (x *layoutTrial) in() bool { return x.out == "" }

// searchLayout searches configurations for the half that lies in the other layout, against the one
// that would run there.
func (t *tune) searchLayout(ctx context.Context, trials []*layoutTrial, s stage, end time.Time) error {
	a := t.newArena(s, end)
	var searches []insitu.Search
	for _, x := range trials {
		def, ok := x.other[s.m]
		if !ok {
			continue
		}
		name := x.class.String() + " " + x.to.String()
		q := quest{name: name, class: x.part(0), def: def, limit: layoutCandidates, seed: t.seed(name, s.m)}
		q.done = func(best *search.Result, _ bool) {
			if best != nil {
				def.Config = best.Config
				x.other[s.m] = def
			}
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
	return insitu.Run(ctx, a, searches, t.until(end, s.test))
}

// layoutPair measures one pair of all trials that are still in, and gives up those that lose clearly.
func (t *tune) layoutPair(ctx context.Context, trials []*layoutTrial, pair int) error {
	trials = slices.DeleteFunc(slices.Clone(trials), func(x *layoutTrial) bool { return !x.in() })
	h := fnv.New64a()
	for _, x := range trials {
		fmt.Fprintln(h, x.class, x.other)
	}
	key := fmt.Sprintf("%s pair %d %x", trials[0].to, pair, h.Sum64())
	got := map[string]map[int]float64{}
	if !t.done("layout", key, &got) {
		var err error
		if got, err = t.measureLayouts(ctx, trials, pair); err != nil {
			return err
		}
		t.add("layout", key, got)
	}
	for _, x := range trials {
		joint := 0.0 // of the pairs so far, the mean
		for m, g := range got[x.class.String()] {
			x.gains[m] = append(x.gains[m], g)
			joint += stat.Mean(x.gains[m])
		}
		if joint < -layoutHopeless {
			x.out = "slower in its first pairs"
		}
	}
	return nil
}

// measureLayouts returns the log-gain of a pair by class and M. A disturbed pair gives none.
func (t *tune) measureLayouts(ctx context.Context, trials []*layoutTrial, pair int) (map[string]map[int]float64, error) {
	got := map[string]map[int]float64{}
	for _, x := range trials {
		got[x.class.String()] = map[int]float64{}
	}
	for turn := range 2 {
		half := (turn + pair) % 2 // that lies in the other layout
		for _, x := range trials {
			if err := t.swap(ctx, x, half); err != nil {
				return nil, err
			}
		}
		for _, s := range layoutStages {
			disturbed, err := t.layoutStep(ctx, trials, s, half, got)
			if err != nil {
				return nil, err
			}
			if disturbed {
				return map[string]map[int]float64{}, nil
			}
		}
	}
	return got, nil
}

// swap puts a half into the other layout and the rest into the present one. The half of a single
// matrix is all of it, or nothing.
func (t *tune) swap(ctx context.Context, x *layoutTrial, half int) error {
	for i := range x.halves {
		to := x.from
		if i == half {
			to = x.to
		}
		if x.single() && i == 1 {
			break
		}
		if err := t.lab.lay(ctx, x.part(i), to); err != nil {
			return err
		}
	}
	return nil
}

// layoutStep times one step, and adds half of the difference that each trial shows in it.
func (t *tune) layoutStep(ctx context.Context, trials []*layoutTrial, s stage, half int, got map[string]map[int]float64) (disturbed bool, err error) {
	a := t.newArena(s, time.Now().Add(t.patience(s.test)))
	var as []insitu.Assignment
	for _, x := range trials {
		if _, ok := x.present[s.m]; !ok {
			continue
		}
		for i := range x.halves {
			if x.single() && i == 1 {
				break
			}
			name, ch := fmt.Sprintf("%s %d", x.class, i), x.present[s.m]
			if i == half {
				ch = x.other[s.m]
			}
			a.classes[name], a.defaults[name] = x.part(i), ch
			as = append(as, a.uniform(name, len(runner.LayersOf(x.part(i))), ch.Config))
		}
	}
	if len(as) == 0 {
		return false, nil
	}
	ts, why, err := a.Step(ctx, as)
	if err != nil || why != "" {
		return why != "", err
	}
	ln := map[string]float64{}
	for _, x := range ts {
		for _, sec := range x.Seconds {
			ln[x.Class] += math.Log(sec) / float64(len(x.Seconds))
		}
	}
	for _, x := range trials {
		if _, ok := x.present[s.m]; !ok {
			continue
		}
		name, sign := x.class.String(), 1.0
		switch {
		case !x.single():
			got[name][s.m] += (ln[fmt.Sprintf("%s %d", x.class, 1-half)] - ln[fmt.Sprintf("%s %d", x.class, half)]) / 2
		default:
			if half == 0 { // it lies in the other layout
				sign = -1
			}
			got[name][s.m] += sign * ln[name+" 0"]
		}
	}
	return false, nil
}
