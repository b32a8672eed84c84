package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/host"
)

// A backend only generates: its death is data. What it was asked is reported, the problem falls to the
// next backend or keeps what was emitted already, and the tune goes on.

// told is a suite whose failing backends are reported among the failures of the tune.
func (t *tune) told(s *kernel.Suite) *kernel.Suite {
	own := *s
	own.Skipped = func(backend string, err error) {
		t.lost(backend, "", err)
		if s.Skipped != nil {
			s.Skipped(backend, err)
		}
	}
	return &own
}

// lost reports what a backend failed to do that was not asked for as a candidate, once.
func (t *tune) lost(backend, config string, err error) {
	if e, died := host.IsCrash(err); died && e.Again {
		return
	}
	f := Failure{Backend: backend, Config: config, Class: classOf(err), Detail: err.Error()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.res.Failures, f) {
		slog.Warn("a backend failed, another takes its place", "backend", backend, "config", config, "why", err)
		t.res.Failures = append(t.res.Failures, f)
	}
}

// space is the space of a choice's backend. One that fails to declare it is not searched.
func (t *tune) space(ctx context.Context, c kernel.Choice) (kernel.Space, error) {
	sp, err := t.Suite.Backends[c.Backend].Space(ctx, t.Suite.Host, c.Problem)
	return sp, t.spared(ctx, c, err)
}

// spared turns the failure of a backend into kernel.ErrUnsupported, after reporting it: what it serves
// already is not searched further.
func (t *tune) spared(ctx context.Context, c kernel.Choice, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, kernel.ErrUnsupported) {
		return err
	}
	t.lost(c.Backend, "", err)
	return fmt.Errorf("%w: %w", kernel.ErrUnsupported, err)
}

// backendDied reports whether an error is the death of the backend that was asked.
func backendDied(err error) bool {
	_, died := host.IsCrash(err)
	return died
}

// lasting is a backend that is started again where it was killed or stopped from outside.
type lasting interface {
	// Outlived lists the deaths after which it was asked the same again.
	Outlived() []error
}

// outlived counts those deaths so far, by backend: they are not this tune's.
func outlived(s *kernel.Suite) map[string]int {
	out := map[string]int{}
	for name, b := range s.Backends {
		if l, ok := b.(lasting); ok {
			out[name] = len(l.Outlived())
		}
	}
	return out
}

// outlivedSince are the deaths since then, as failures: nothing was lost, but the report says so.
func outlivedSince(s *kernel.Suite, before map[string]int) []Failure {
	var out []Failure
	for _, name := range slices.Sorted(maps.Keys(s.Backends)) {
		l, ok := s.Backends[name].(lasting)
		if !ok {
			continue
		}
		for _, err := range l.Outlived()[before[name]:] {
			f := Failure{Backend: name, Class: classCrash, Detail: err.Error() + "; started again and asked the same"}
			if e, ok := host.IsCrash(err); ok {
				f.Config = e.Config.String()
			}
			out = append(out, f)
		}
	}
	return out
}
