package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"

	"github.com/sourcegraph/conc/iter"

	"github.com/tilewright/tilewright/kernel"
)

// Set is a suite of running backends. Failed holds those that did not start, by name: the others
// work without them.
type Set struct {
	kernel.Suite
	Plugins []*Plugin
	Failed  map[string]error
}

// Suite starts several backends at once. Built-ins come in kernel.BackendOrder, third parties after
// them by name. A backend that requires features that the host lacks, or another architecture, is
// left out: it could only say so. It fails only if ctx ends or two sources share a name.
func Suite(ctx context.Context, features kernel.Features, arch string, o Options, sources ...Source) (*Set, error) {
	seen := map[string]bool{}
	for _, s := range sources {
		if seen[s.Name] {
			return nil, fmt.Errorf("two backends are named %q", s.Name)
		}
		seen[s.Name] = true
	}
	type opened struct {
		p   *Plugin
		err error
	}
	results := iter.Map(sources, func(s *Source) opened {
		p, err := Open(ctx, *s, o)
		return opened{p, err}
	})
	set := &Set{Suite: kernel.Suite{Host: features, Backends: map[string]kernel.Backend{}, Skipped: warnOnce(o.withDefaults().Log)}, Failed: map[string]error{}}
	for i, r := range results {
		name := sources[i].Name
		switch {
		case r.err != nil:
			set.Failed[name] = r.err
		case r.p.man.Arch != "" && r.p.man.Arch != arch || !features.Has(r.p.man.Requires...):
			r.p.Close()
		default:
			set.Plugins = append(set.Plugins, r.p)
			set.Backends[name] = r.p
		}
	}
	set.Order = order(set.Backends)
	if ctx.Err() != nil {
		set.Close()
		return nil, ctx.Err()
	}
	return set, nil
}

// warnOnce warns of each backend that was skipped, the first time.
func warnOnce(log *slog.Logger) func(string, error) {
	var seen sync.Map
	return func(backend string, err error) {
		if _, again := seen.LoadOrStore(backend, true); !again {
			log.Warn("backend failed and is skipped: the next one serves", "backend", backend, "why", err)
		}
	}
}

// order is kernel.BackendOrder, then the other names, sorted. The portable backend stays last, so
// that third parties are preferred to it.
func order(backends map[string]kernel.Backend) []string {
	var known, other, last []string
	for _, n := range kernel.BackendOrder {
		if backends[n] != nil {
			known = append(known, n)
		}
	}
	if n := len(known); n > 0 && known[n-1] == "generic" {
		known, last = known[:n-1], known[n-1:]
	}
	for n := range backends {
		if !slices.Contains(known, n) && !slices.Contains(last, n) {
			other = append(other, n)
		}
	}
	sort.Strings(other)
	return append(append(known, other...), last...)
}

// Digest is the identity of a backend of the set.
func (s *Set) Digest(name string) string {
	for _, p := range s.Plugins {
		if p.id.Name == name {
			return p.id.Digest
		}
	}
	return ""
}

// Close ends all backends, together.
func (s *Set) Close() error {
	return errors.Join(iter.Map(s.Plugins, func(p **Plugin) error { return (*p).Close() })...)
}
