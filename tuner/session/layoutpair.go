package session

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/runner"
)

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
	a := t.newArena(s, t.now().Add(t.patience(s.test)))
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
