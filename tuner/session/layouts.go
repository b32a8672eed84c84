package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/measure"
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
		until := t.now().Add(t.until(end) / time.Duration(len(all)-i))
		if need := t.layoutNeeds(trials) + time.Duration(len(trials))*vetTakes; t.now().Add(need).After(until) {
			until = t.now().Add(need) // at the cost of the later ones
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
	spend := t.until(end) - t.layoutNeeds(trials)
	for _, x := range trials {
		if err := t.lab.lay(ctx, x.part(0), x.to); err != nil {
			return err
		}
	}
	for i, s := range layoutStages {
		if err := t.searchLayout(ctx, trials, s, t.now().Add(spend/2/time.Duration(len(layoutStages)-i))); err != nil {
			return err
		}
		spend = t.until(end) - t.layoutNeeds(trials)
	}
	took := time.Duration(0)
	for pair := range layoutPairs {
		start := t.now()
		if start.Add(took).After(end) || !slices.ContainsFunc(trials, (*layoutTrial).in) {
			break
		}
		if err := t.layoutPair(ctx, trials, pair); err != nil {
			return err
		}
		took = max(took, t.now().Sub(start))
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
	return insitu.Run(ctx, a, searches, t.inTime(end, s.test))
}
