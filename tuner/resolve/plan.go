package resolve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// Tuning says where the configurations of a plan come from.
type Tuning string

const (
	TuningExact Tuning = "exact" // winners tuned for this model
	TuningHost  Tuning = "host"  // tuned on this host with another model
	TuningNone  Tuning = "none"  // defaults
)

// Plan is a plan for the engine and the source of its artifacts. Backends are started only when
// something is not in the cache.
type Plan struct {
	Tuning Tuning
	Line   string // what was found, for people
	Knobs  kernel.Knobs
	Key    cache.DecisionKey
	Lookup cache.Lookup

	t     Target
	store *cache.Store
	suite func(context.Context) (*kernel.Suite, error)
	arm   *kernel.Arm
	rules map[ruleID]*cache.Rule

	decision cache.Decision // if arm is set

	mu      sync.Mutex
	why     map[kernel.Problem]string
	checked map[string]error // by goldenID
	fallen  int              // choices that could not be served
	said    string           // Line before the first of them
	fallWhy string
}

type ruleID struct {
	arith  kernel.Arith
	format kernel.Format
}

// Options of New.
type Options struct {
	Store *cache.Store // nil: no look-up, no write (--pin)
	// Suite starts the backends; it is called at most when needed, and may be called often.
	Suite func(context.Context) (*kernel.Suite, error)
	Knobs kernel.Knobs // of the default arm
}

// New looks up what is known about the target.
func New(t Target, o Options) (*Plan, error) {
	p := &Plan{Tuning: TuningNone, Knobs: o.Knobs, t: t, store: o.Store, suite: o.Suite,
		rules: map[ruleID]*cache.Rule{}, why: map[kernel.Problem]string{}, checked: map[string]error{}}
	var err error
	if p.Key, err = t.DecisionKey(); err != nil {
		return nil, err
	}
	switch {
	case t.Numerics.Weights == model.F32:
		p.Line = "f32 is the reference arithmetic: not tuned"
		return p, nil
	case o.Store == nil:
		p.Line = "pinned: no look-up, defaults"
		return p, nil
	}
	d, look := o.Store.Decision(p.Key)
	p.Lookup = look
	if look.Fits(d) {
		p.Tuning, p.decision, p.arm, p.Knobs = TuningExact, d, &d.Arm, d.Arm.Knobs
		p.Line = found(d)
		if look.Status == cache.Revalidate {
			p.Line += "; " + look.Why + ": run tune to look again"
		}
		return p, nil
	}
	return p, p.fromRules()
}

// found says what a decision for this model holds: winners, or a default that stood every trial.
func found(d cache.Decision) string {
	line := "tuned for this model"
	if !slices.ContainsFunc(d.Evidence, func(e cache.Evidence) bool { return e.Decision == winner }) && len(d.Won) == 0 {
		line = "tuned for this model, no winner: the default is kept"
	}
	if r := evidence(d.Evidence); r != "" {
		line += " (" + r + ")"
	}
	return line
}

// winner is the Decision of evidence for a phase in which the default was beaten.
const winner = "winner"

// evidence says phase by phase what the tune came to, so that nobody takes a default for a winner.
func evidence(es []cache.Evidence) string {
	var s []string
	for _, e := range es {
		if e.Decision == winner {
			s = append(s, fmt.Sprintf("%s %.2fx the default", e.Phase, e.Ratio))
		} else {
			s = append(s, fmt.Sprintf("%s default kept: %s", e.Phase, e.Why))
		}
	}
	return strings.Join(s, ", ")
}

// fromRules takes host rules for the model's formats, if any matches exactly.
func (p *Plan) fromRules() error {
	classes, err := p.t.Model.Classes(p.t.Numerics)
	if err != nil {
		return err
	}
	covered := 0
	for _, c := range classes {
		id := ruleID{c.Format.Arith(p.t.Numerics.Weights.Arith()), c.Format}
		r, seen := p.rules[id]
		if !seen {
			if got, look := p.store.Rule(p.t.RuleKey(c.Format)); look.Status == cache.Exact {
				r = &got
			}
			p.rules[id] = r
		}
		if r != nil {
			covered++
			if r.Knobs != (kernel.Knobs{}) { // a survey teaches none
				p.Knobs = r.Knobs
			}
		}
	}
	hint := "run tune --host-profile for this model"
	if p.Lookup.Status == cache.Revalidate {
		hint = "the result for this model wants revalidation (" + p.Lookup.Why + "): run tune again"
	}
	if covered > 0 {
		p.Tuning = TuningHost
		p.Line = fmt.Sprintf("host defaults (%d of %d kinds of weights), not tuned for this model: %s", covered, len(classes), hint)
		return nil
	}
	p.Line = "untuned, running the defaults: " + hint
	return nil
}

// Layout is the layout of a class of weights.
func (p *Plan) Layout(ctx context.Context, c model.Class) (kernel.Layout, error) {
	if p.arm != nil {
		want := c.Problem(p.t.Numerics.Weights, 1, kernel.Layout{})
		if ch, ok := p.arm.Find(want); ok {
			return ch.Problem.Layout, nil
		}
	}
	if r := p.rule(c.Format); r != nil {
		return r.Layout, nil
	}
	s, err := p.suite(ctx)
	if err != nil {
		return kernel.Layout{}, err
	}
	return s.Layout(ctx, c.Format)
}

func (p *Plan) rule(f kernel.Format) *cache.Rule {
	return p.rules[ruleID{f.Arith(p.t.Numerics.Weights.Arith()), f}]
}

// Choice is the configuration for a problem.
func (p *Plan) Choice(ctx context.Context, prob kernel.Problem) (kernel.Choice, error) {
	c, why, err := p.choose(ctx, prob)
	p.mu.Lock()
	p.why[prob] = why
	p.mu.Unlock()
	return c, err
}

func (p *Plan) choose(ctx context.Context, prob kernel.Problem) (kernel.Choice, string, error) {
	if p.arm != nil {
		if c, ok := p.arm.Find(prob); ok {
			return c, p.decided(c), nil
		}
	}
	if r := p.rule(prob.Format); prob.Op == kernel.OpLinear && r != nil && r.Layout == prob.Layout {
		for _, rc := range r.Choices {
			if rc.M == prob.M {
				return kernel.Choice{Problem: prob, Backend: rc.Backend, Config: rc.Config}, "host rule", nil
			}
		}
	}
	s, err := p.suite(ctx)
	if err != nil {
		return kernel.Choice{}, "", err
	}
	c, err := s.Default(ctx, prob)
	return c, "default", err
}

// decided says what the decision means for a choice of its arm: only what differs from the default won.
func (p *Plan) decided(c kernel.Choice) string {
	switch {
	case slices.Contains(p.decision.Won, c.Problem):
		return "tuned for this model"
	case c.Problem.Op != kernel.OpLinear:
		return "default"
	}
	phase := "decode"
	if c.Problem.M > 1 {
		phase = "prefill"
	}
	i := slices.IndexFunc(p.decision.Evidence, func(e cache.Evidence) bool { return e.Phase == phase })
	if i >= 0 && p.decision.Evidence[i].Decision != winner {
		return "default kept: " + p.decision.Evidence[i].Why
	}
	return "default kept: nothing beat it for this model"
}

// Why says where the choice for a problem came from.
func (p *Plan) Why(prob kernel.Problem) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why[prob]
}

// Watch is the watch over the speed of a run by this plan, nil if there is nothing to compare with.
func (p *Plan) Watch() *SpeedWatch {
	if p.arm == nil {
		return nil
	}
	return newSpeedWatch(p.decision.Evidence)
}

// Judge marks the decision for revalidation if the run was slower than its evidence, and says why.
// What runs does not change.
func (p *Plan) Judge(w *SpeedWatch) (string, error) {
	why := w.Slow()
	if why == "" || p.store == nil || p.Tuning != TuningExact {
		return "", nil
	}
	return why, p.store.Revalidate(p.decision, why)
}
