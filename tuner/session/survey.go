package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// surveyed are the tuning points of a survey: one of each phase.
var surveyed = []int{1, 512}

// Survey screens a small model in place of all that share its formats, and writes host rules for those
// formats that have none yet: configurations that gain clearly in situ, on new data, and the defaults
// elsewhere. There is no decision: nothing is claimed for a model, so nothing is confirmed. What does
// not fit into the budget is left out.
func Survey(ctx context.Context, o Options) (Result, error) {
	t := newTune(o)
	defer t.lab.close()
	all, err := o.Target.Model.Classes(o.Target.Numerics)
	if err != nil {
		return t.result(), err
	}
	for _, c := range all {
		if r, look := t.Store.Rule(t.Target.RuleKey(c.Format)); look.Status != cache.Exact || !t.complete(r) {
			t.classes = append(t.classes, c)
		}
	}
	if len(t.classes) == 0 {
		return t.result(), nil
	}
	until, stop := t.within(ctx)
	defer stop()
	if err = t.look(until); errors.Is(err, errBudget) {
		err = nil // what was seen counts
	}
	for i := range t.res.Verdicts {
		t.res.Verdicts[i].Problem, t.res.Verdicts[i].Finalist = "survey "+t.res.Verdicts[i].Problem, false
	}
	if err != nil {
		return t.result(), err
	}
	err = t.teach(ctx)
	return t.result(), err
}

// complete reports whether a rule says something at each surveyed point.
func (t *tune) complete(r cache.Rule) bool {
	return !slices.ContainsFunc(surveyed, func(m int) bool {
		return t.asked[phaseOf(m)] && !slices.ContainsFunc(r.Choices, func(c cache.RuleChoice) bool { return c.M == m })
	})
}

// look screens the classes at the surveyed points that were asked for, in equal shares of the time.
func (t *tune) look(ctx context.Context) error {
	t.Progress("survey", t.Target.Model.Spec.Name)
	r, err := t.lab.runner(ctx)
	if err == nil {
		err = t.rates(ctx, r)
	}
	if err != nil {
		return overtaken(ctx, err)
	}
	points := slices.DeleteFunc(slices.Clone(surveyed), func(m int) bool { return !t.asked[phaseOf(m)] })
	for i, m := range points {
		k := slices.IndexFunc(stages, func(s stage) bool { return s.m == m })
		end := t.now().Add((t.left() - reserve) / time.Duration(len(points)-i))
		if err := t.screenStage(ctx, stages[k], end); err != nil {
			return overtaken(ctx, err)
		}
	}
	return nil
}

// teach writes a rule for each format that was searched.
func (t *tune) teach(ctx context.Context) error {
	done := map[kernel.Format]bool{}
	for _, c := range t.classes {
		if done[c.Format] {
			continue
		}
		done[c.Format] = true
		r, err := t.lesson(ctx, c.Format)
		if err != nil {
			return err
		}
		if len(r.Choices) == 0 {
			continue
		}
		if err := t.Store.PutRule(r); err != nil {
			return err
		}
		t.res.Written++
	}
	return nil
}

// lesson is the rule for a format: at each point what its largest class says, the configuration that
// gained or the default; what an older rule says where this survey did not come to search.
func (t *tune) lesson(ctx context.Context, f kernel.Format) (cache.Rule, error) {
	l, err := t.Suite.Layout(ctx, f)
	if err != nil {
		return cache.Rule{}, err
	}
	r := cache.Rule{Key: t.Target.RuleKey(f), Layout: l} // it teaches no knobs
	old, look := t.Store.Rule(r.Key)
	if look.Status == cache.Exact && old.Layout == l {
		r = old
	}
	for _, m := range surveyed {
		best, size := cache.RuleChoice{}, 0
		for _, c := range t.classes {
			n := c.N * c.K * c.Count
			if c.Format != f || !t.searched[pointID{c.Key(), m}] || n <= size {
				continue
			}
			ch, err := t.lab.plan.Choice(ctx, c.Problem(t.Target.Numerics.Weights, m, l))
			if err != nil {
				return r, fmt.Errorf("rule for %s: %w", f, err)
			}
			if s, ok := t.best[pointID{c.Key(), m}]; ok && s.clear() {
				ch = s.Choice
			}
			best, size = cache.RuleChoice{M: m, Backend: ch.Backend, Config: ch.Config}, n
		}
		if size > 0 {
			r.Choices = append(slices.DeleteFunc(r.Choices, func(c cache.RuleChoice) bool { return c.M == m }), best)
		}
	}
	return r, nil
}

// SurveyModel is what a survey looks at: a small published shape, on the grid that weights of 16 bits get.
func SurveyModel(w model.Weights) (preset string, n model.Numerics) {
	return "smollm2-135m", model.Numerics{Weights: w, Requant: 32}
}
