package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/probe"
)

// Artifact returns the artifact of a choice: from the cache if it holds it, else emitted and kept.
// Golden numbers are checked before its first use. A stored one that fails is emitted again; a choice
// that cannot be served at all falls back to the default, and Line says so.
func (p *Plan) Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	if a := p.stored(c); a != nil {
		return a, nil
	}
	a, err := p.emit(ctx, c)
	if err == nil {
		p.keep(c, a)
		return a, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	return p.fallback(ctx, c, err)
}

// stored is the artifact that the store holds of a choice, nil if it holds none that can be used; why not
// has been said then.
func (p *Plan) stored(c kernel.Choice) *kernel.Artifact {
	info, known := p.t.Backends[c.Backend]
	if p.store == nil || !known {
		return nil
	}
	a, err := p.store.Artifact(p.request(c, info))
	if err != nil {
		return nil
	}
	if err := p.golden(a); err != nil {
		slog.Warn("stored artifact not used, emitting it again", "problem", c.Problem, "why", err)
		return nil
	}
	return a
}

func (p *Plan) request(c kernel.Choice, info BackendInfo) cache.Request {
	return cache.NewRequest(c, kernel.BackendID{Name: c.Backend, Digest: info.Digest}, p.t.Host.Features)
}

func (p *Plan) keep(c kernel.Choice, a *kernel.Artifact) {
	info, known := p.t.Backends[c.Backend]
	if p.store == nil || !known {
		return
	}
	origin := "default"
	if p.Tuning == TuningExact {
		origin = "tuned"
	}
	if err := p.store.PutArtifact(p.request(c, info), a, origin); err != nil {
		slog.Warn("artifact not kept", "problem", c.Problem, "why", err)
	}
}

// emit has an artifact made, and checks it.
func (p *Plan) emit(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	s, err := p.suite(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.Emit(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("emit %s: %w", c.Problem, err)
	}
	return a, p.golden(a)
}

// goldenID names what a golden check says something about: the same code for the same problem, whose
// number of channels and of rows the code does not know.
func goldenID(a *kernel.Artifact) string {
	prob := a.Key.Problem
	prob.N, prob.M = 0, 0
	if prob.Op == kernel.OpAttn {
		prob.M = a.Key.Problem.M
	}
	return a.Digest() + " " + kernel.KeyDigest(prob)
}

// golden checks an artifact, once for all that run the same.
func (p *Plan) golden(a *kernel.Artifact) error {
	if err := a.Validate(p.t.Host.Features); err != nil {
		return err
	}
	id := goldenID(a)
	p.mu.Lock()
	err, seen := p.checked[id]
	p.mu.Unlock()
	if !seen {
		if err = probe.Golden(a); err != nil {
			err = fmt.Errorf("golden numbers: %w", err)
		}
		p.mu.Lock()
		p.checked[id] = err
		p.mu.Unlock()
	}
	return err
}

// fallback serves the problem of a choice that cannot be served: by the default of the first backend
// whose code stands the check.
func (p *Plan) fallback(ctx context.Context, c kernel.Choice, why error) (*kernel.Artifact, error) {
	s, err := p.suite(ctx)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	for d, err := range s.Defaults(ctx, c.Problem) {
		if err != nil || d.Backend == c.Backend && d.Config.String() == c.Config.String() {
			continue
		}
		if a, err := p.emit(ctx, d); err == nil {
			p.fellBack(c, d, why)
			return a, nil
		}
	}
	return nil, why
}

// fellBack records that something else than was chosen runs: not silently, and not as tuned.
func (p *Plan) fellBack(c, d kernel.Choice, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why[c.Problem] = "fallback to " + d.Backend
	if p.fallen++; p.fallen == 1 {
		p.said, p.fallWhy = p.Line, fmt.Sprintf("%s of %s: %v", c.Problem, c.Backend, why)
		if p.Tuning == TuningExact && p.store != nil {
			if err := p.store.Revalidate(p.decision, p.fallWhy); err != nil {
				slog.Warn("decision not marked for revalidation", "why", err)
			}
		}
		p.Tuning = TuningNone
	}
	p.Line = fmt.Sprintf("%s; BUT %d kernel(s) could not be used and run as the default, first %s: run tune again", p.said, p.fallen, p.fallWhy)
}
