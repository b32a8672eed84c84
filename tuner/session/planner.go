package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// planner answers what runners ask: the default arm, overridden by choices for linear problems and
// layouts for classes. It remembers every choice, so that the arm that wins is known whole.
type planner struct {
	suite   *kernel.Suite
	weights model.Weights
	made    *made

	mu       sync.Mutex
	layouts  map[model.Key]kernel.Layout
	override map[kernel.Problem]kernel.Choice
	asked    map[kernel.Problem]kernel.Choice
}

// made is what the planners of a tune got from the backends: it outlives them.
type made struct {
	mu        sync.Mutex
	artifacts map[string]*kernel.Artifact // by id of the choice
	layouts   map[kernel.Format]kernel.Layout
	defaults  map[kernel.Problem]kernel.Choice
	failed    func(c kernel.Choice, err error) // told of a default that could not be emitted
}

func newPlanner(s *kernel.Suite, w model.Weights) *planner {
	return &planner{suite: s, weights: w, layouts: map[model.Key]kernel.Layout{},
		override: map[kernel.Problem]kernel.Choice{}, asked: map[kernel.Problem]kernel.Choice{},
		made: &made{artifacts: map[string]*kernel.Artifact{}, layouts: map[kernel.Format]kernel.Layout{}, defaults: map[kernel.Problem]kernel.Choice{}, failed: func(kernel.Choice, error) {}}}
}

// with is a planner of the same backends for another arm: choices override the defaults.
func (p *planner) with(choices []kernel.Choice, layouts map[model.Key]kernel.Layout) *planner {
	q := newPlanner(p.suite, p.weights)
	q.made = p.made
	maps.Copy(q.layouts, layouts)
	for _, c := range choices {
		q.override[c.Problem] = c
	}
	return q
}

// Layout is the layout of a class: the arm's, else the default of its format.
func (p *planner) Layout(ctx context.Context, c model.Class) (kernel.Layout, error) {
	p.mu.Lock()
	l, ok := p.layouts[c.Key()]
	p.mu.Unlock()
	if ok {
		return l, nil
	}
	l, err := p.standardLayout(ctx, c.Format)
	if err == nil {
		p.mu.Lock()
		p.layouts[c.Key()] = l
		p.mu.Unlock()
	}
	return l, err
}

// standardLayout is the default layout of a format. It stays the same for the whole tune, as standard does.
func (p *planner) standardLayout(ctx context.Context, f kernel.Format) (kernel.Layout, error) {
	if l, ok := p.knownLayout(f); ok {
		return l, nil
	}
	l, err := p.suite.Layout(ctx, f)
	if err == nil {
		p.made.mu.Lock()
		p.made.layouts[f] = l
		p.made.mu.Unlock()
	}
	return l, err
}

// knownLayout is the default layout of a format if a backend has been asked for it.
func (p *planner) knownLayout(f kernel.Format) (kernel.Layout, bool) {
	p.made.mu.Lock()
	defer p.made.mu.Unlock()
	l, ok := p.made.layouts[f]
	return l, ok
}

// Choice is the arm's choice for a problem, else the default.
func (p *planner) Choice(ctx context.Context, prob kernel.Problem) (kernel.Choice, error) {
	p.mu.Lock()
	c, ok := p.override[prob]
	p.mu.Unlock()
	if !ok {
		var err error
		if c, err = p.standard(ctx, prob); err != nil {
			return c, err
		}
	}
	p.mu.Lock()
	p.asked[prob] = c
	p.mu.Unlock()
	return c, nil
}

// standard is the default for a problem: that of the first backend which can also emit it. It stays the
// same for the whole tune, also should that backend die later, and it does not fail with the first one:
// a backend that dies of a problem leaves it to the next.
func (p *planner) standard(ctx context.Context, prob kernel.Problem) (kernel.Choice, error) {
	p.made.mu.Lock()
	c, ok := p.made.defaults[prob]
	p.made.mu.Unlock()
	if ok {
		return c, nil
	}
	var failed error
	for c, err := range p.suite.Defaults(ctx, prob) {
		if err == nil {
			if _, err = p.Artifact(ctx, c); err != nil && ctx.Err() == nil {
				p.made.failed(c, err)
			}
		}
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		if err == nil {
			p.made.mu.Lock()
			p.made.defaults[prob] = c
			p.made.mu.Unlock()
			return c, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return kernel.Choice{}, failed
	}
	return kernel.Choice{}, fmt.Errorf("%w: no backend does %s", kernel.ErrUnsupported, prob)
}

// Artifact emits the code of a choice, once.
func (p *planner) Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	id := kernel.KeyDigest(c)
	p.made.mu.Lock()
	a := p.made.artifacts[id]
	p.made.mu.Unlock()
	if a != nil {
		return a, nil
	}
	a, err := p.suite.Emit(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("emit %s with %s: %w", c.Problem, c.Config, err)
	}
	p.made.mu.Lock()
	p.made.artifacts[id] = a
	p.made.mu.Unlock()
	return a, nil
}

// choices lists every choice made so far.
func (p *planner) choices() []kernel.Choice {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []kernel.Choice
	for _, c := range p.asked {
		out = append(out, c)
	}
	return out
}
