package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/runner"
)

// layoutTrial is one class in another layout.
type layoutTrial struct {
	class    model.Class // with the layers that take part
	from, to kernel.Layout
	halves   [2][]int
	present  map[int]kernel.Choice // by M: what runs now
	other    map[int]kernel.Choice // what would run
	gains    map[int][]float64     // by M: log-gain of each pair
	out      string                // why it is given up
}

// layoutTrials are the trials of classes in the k-th of their layouts, nil if none has so many. The
// layers that take part fit into roomLayouts together.
func (t *tune) layoutTrials(ctx context.Context, classes []model.Class, k int) ([]*layoutTrial, error) {
	var out []*layoutTrial
	for _, c := range classes {
		x, err := t.layoutTrial(ctx, c, k)
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if x != nil {
			out = append(out, x)
		}
	}
	room := min(int64(roomLayouts), t.Memory-int64(t.lab.loaded.WeightsBytes)-spare)
	return slices.DeleteFunc(out, func(x *layoutTrial) bool {
		each := int64(max(x.from.TensorBytes(x.class.Format, x.class.N, x.class.K), x.to.TensorBytes(x.class.Format, x.class.N, x.class.K)))
		n := int(room / int64(len(out)) / each)
		if n < min(2, len(runner.LayersOf(x.class))) {
			t.noteLayouts([]*layoutTrial{x}, fmt.Sprintf("no room: %d MB a layer, %d MB for all", each>>20, room>>20))
			return true
		}
		x.deal(n)
		return false
	}), nil
}

// deal cuts up to n layers into halves, neighbours into different ones. A single matrix has one.
func (x *layoutTrial) deal(n int) {
	for i, layer := range x.class.Layers[:min(n/2*2, len(x.class.Layers)/2*2)] {
		x.halves[i%2] = append(x.halves[i%2], layer)
	}
	if len(x.class.Layers) < 2 {
		x.halves = [2][]int{x.class.Layers}
	}
}

// part is the class with the layers of a half.
func (x *layoutTrial) part(half int) model.Class {
	c := x.class
	c.Layers = x.halves[half]
	return c
}

// single reports whether there is one matrix alone: its layouts take turns.
func (x *layoutTrial) single() bool { return len(x.halves[1]) == 0 }

// layoutTrial is the trial of a class in the k-th layout of its backend, the present one not counted;
// nil if there are fewer.
func (t *tune) layoutTrial(ctx context.Context, c model.Class, k int) (*layoutTrial, error) {
	from, err := t.lab.plan.Layout(ctx, c)
	if err != nil {
		return nil, err
	}
	def, err := t.lab.plan.Choice(ctx, c.Problem(t.Target.Numerics.Weights, 1, from))
	if err != nil {
		return nil, err
	}
	ls, err := t.Suite.Backends[def.Backend].Layouts(ctx, t.Suite.Host, c.Format)
	if err != nil {
		return nil, t.spared(ctx, def, err)
	}
	ls = slices.DeleteFunc(slices.Clone(ls), func(l kernel.Layout) bool { return l == from })
	if k > len(ls) {
		return nil, nil
	}
	x := &layoutTrial{class: c, from: from, to: ls[k-1], present: map[int]kernel.Choice{}, other: map[int]kernel.Choice{}, gains: map[int][]float64{}}
	for _, s := range layoutStages {
		if !covers(c, s.m) {
			continue
		}
		if x.present[s.m], err = t.lab.plan.Choice(ctx, c.Problem(t.Target.Numerics.Weights, s.m, from)); err != nil {
			return nil, err
		}
		if b, ok := t.best[pointID{c.Key(), s.m}]; ok {
			x.present[s.m] = b.Choice
		}
		prob := x.present[s.m].Problem
		prob.Layout = x.to
		if x.other[s.m], err = t.Suite.Default(ctx, prob); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// begin vets what runs in the other layout first: the configuration of now where it passes there, else
// the default. A trial whose default fails is given up.
func (t *tune) begin(ctx context.Context, x *layoutTrial) error {
	for m, def := range x.other {
		if err := t.vet(ctx, def, def.Config); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			x.out = fmt.Sprintf("the default of %s cannot run: %v", def.Problem, err)
			return nil
		}
		now := x.present[m]
		sp, err := t.Suite.Backends[def.Backend].Space(ctx, t.Suite.Host, def.Problem)
		if err != nil || def.Backend != now.Backend || sp.Check(now.Config) != nil {
			continue
		}
		if t.vet(ctx, def, now.Config) == nil {
			def.Config = now.Config
			x.other[m] = def
		}
	}
	return ctx.Err()
}
