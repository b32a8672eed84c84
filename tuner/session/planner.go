package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// planner answers what runners ask: the default arm, overridden by choices for linear problems and
// layouts for classes. It remembers every choice, so that the arm that wins is known whole.
type planner struct {
	suite   *kernel.Suite
	weights model.Weights

	mu       sync.Mutex
	layouts  map[model.Key]kernel.Layout
	override map[kernel.Problem]kernel.Choice
	asked    map[kernel.Problem]kernel.Choice
	emitted  map[string]*kernel.Artifact // by id of the choice
}

func newPlanner(s *kernel.Suite, w model.Weights) *planner {
	return &planner{suite: s, weights: w, layouts: map[model.Key]kernel.Layout{},
		override: map[kernel.Problem]kernel.Choice{}, asked: map[kernel.Problem]kernel.Choice{},
		emitted: map[string]*kernel.Artifact{}}
}

// with is a planner of the same backends for another arm: choices override the defaults.
func (p *planner) with(choices []kernel.Choice, layouts map[model.Key]kernel.Layout) *planner {
	q := newPlanner(p.suite, p.weights)
	for k, l := range layouts {
		q.layouts[k] = l
	}
	for _, c := range choices {
		q.override[c.Problem] = c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, a := range p.emitted {
		q.emitted[id] = a
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
	l, err := p.suite.Layout(ctx, c.Format)
	if err == nil {
		p.mu.Lock()
		p.layouts[c.Key()] = l
		p.mu.Unlock()
	}
	return l, err
}

// Choice is the arm's choice for a problem, else the default.
func (p *planner) Choice(ctx context.Context, prob kernel.Problem) (kernel.Choice, error) {
	p.mu.Lock()
	c, ok := p.override[prob]
	p.mu.Unlock()
	if !ok {
		var err error
		if c, err = p.suite.Default(ctx, prob); err != nil {
			return c, err
		}
	}
	p.mu.Lock()
	p.asked[prob] = c
	p.mu.Unlock()
	return c, nil
}

// Artifact emits the code of a choice, once.
func (p *planner) Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	id := kernel.KeyDigest(c)
	p.mu.Lock()
	a := p.emitted[id]
	p.mu.Unlock()
	if a != nil {
		return a, nil
	}
	a, err := p.suite.Emit(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("emit %s with %s: %w", c.Problem, c.Config, err)
	}
	p.mu.Lock()
	p.emitted[id] = a
	p.mu.Unlock()
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
