package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// emitAll emits a problem's default and some random configurations, and asks for a few that are none.
func (k *kit) emitAll(ctx context.Context, r *rand.Rand, p *problem) {
	configs := []kernel.Config{p.space.Default()}
	for range k.o.Configs {
		if c, ok := random(r, p.space); ok {
			configs = append(configs, c)
		}
	}
	for _, c := range configs {
		k.tried(checkEmit)
		a, err := k.emit(ctx, k.host, p.Problem, c)
		if err != nil {
			k.fail(checkEmit, "%s with %s: %v", p, c, err)
			continue
		}
		p.emitted = append(p.emitted, emitted{c, a.Digest(), a})
	}
	k.otherCaches(ctx, p)
	// The least host that the manifest admits.
	if a, err := k.emit(ctx, kernel.NewFeatures(k.man.Requires...), p.Problem, p.space.Default()); err == nil {
		k.artifact(a, kernel.NewFeatures(k.man.Requires...), p.Problem, p.space.Default())
	} else if !errors.Is(err, kernel.ErrUnsupported) && !errors.Is(err, kernel.ErrConfig) {
		k.fail(checkEmit, "%s on a host with %v alone: %v", p, k.man.Requires, err)
	}
	for _, e := range p.emitted {
		k.artifact(e.artifact, k.host, p.Problem, e.config)
	}
	k.strangers(ctx, p)
}

// otherCaches emits for a host that differs in its caches alone: they are in no artifact's key.
func (k *kit) otherCaches(ctx context.Context, p *problem) {
	if len(p.emitted) == 0 {
		return
	}
	first := p.emitted[0]
	k.tried(checkCaches)
	a, err := k.emit(ctx, k.host.WithCache(1, 13<<10).WithCache(2, 13<<20).WithCache(3, 0), p.Problem, first.config)
	if err != nil || a.Digest() != first.digest || a.Key.Digest() != first.artifact.Key.Digest() {
		k.fail(checkCaches, "%s with %s: another artifact for other caches (%v)", p, first.config, err)
	}
}

// emit emits and watches the configuration that was passed.
func (k *kit) emit(ctx context.Context, host kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	mine, feats := c.Clone(), slices.Clone(host)
	a, err := k.b.Emit(ctx, feats, p, mine)
	k.tried(checkInputs)
	if !maps.Equal(mine, c) || !slices.Equal(feats, host) {
		k.fail(checkInputs, "%s: Emit changed its configuration or the features: %v, was %v", p, mine, c)
	}
	if err == nil && a == nil {
		err = errors.New("neither an artifact nor an error")
	}
	return a, err
}

// artifact checks what was emitted for (p, c) on a host.
func (k *kit) artifact(a *kernel.Artifact, host kernel.Features, p kernel.Problem, c kernel.Config) {
	k.tried(checkArtifact)
	if err := a.Validate(host); err != nil {
		k.fail(checkArtifact, "with %s: %v", c, err)
	}
	if a.Key.Problem != p || !maps.Equal(a.Key.Config, c) || a.Key.Backend.Name != k.man.Name {
		k.fail(checkArtifact, "%s with %s: its key says %s with %s by %s", p, c, a.Key.Problem, a.Key.Config, a.Key.Backend.Name)
	}
	if err := execSane(a); err != nil {
		k.fail(checkArtifact, "%s with %s: %v", p, c, err)
	}
	if a.Kind == kernel.KindGo {
		return
	}
	k.tried(checkISA)
	isa := kernel.Features(a.Key.ISA)
	switch {
	case !slices.IsSorted(isa):
		k.fail(checkISA, "%s with %s: the ISA list is not sorted: %v", p, c, isa)
	case len(isa.Missing(k.man.Requires)) > 0:
		k.fail(checkISA, "%s with %s: needs %v, the manifest requires %v", p, c, isa, k.man.Requires)
	case k.man.Arch == "":
		k.fail(checkISA, "%s with %s: machine code, and the manifest names no architecture", p, c)
	}
}

// execSane checks that an artifact says how to drive it, and that it does any work.
func execSane(a *kernel.Artifact) error {
	e := a.Exec
	if _, rows := a.Entries[kernel.EntryRows]; rows && a.Key.Problem.Op != kernel.OpRope {
		return fmt.Errorf("entry %s: only rope has one", kernel.EntryRows)
	}
	switch a.Key.Problem.Op {
	case kernel.OpLinear:
		if e.MR < 1 || e.Streams < 1 {
			return fmt.Errorf("exec: mr %d and streams %d, want at least 1", e.MR, e.Streams)
		}
		_, unpack := a.Entries[kernel.EntryUnpack]
		_, tail := a.Entries[kernel.EntryTail]
		if a.Kind == kernel.KindCode && (e.Panel != unpack || e.Panel && e.PanelStride < 1) {
			return fmt.Errorf("exec: panel %t with stride %d, entry unpack present: %t", e.Panel, e.PanelStride, unpack)
		}
		if a.Kind == kernel.KindCode && e.Streams > 1 && !tail {
			return fmt.Errorf("exec: %d streams without an entry tail", e.Streams)
		}
	case kernel.OpStream, kernel.OpPeak:
		if e.Unit < 1 {
			return errors.New("exec: unit 0: it reports no work")
		}
	}
	return nil
}

// strangers are configurations outside the space.
func (k *kit) strangers(ctx context.Context, p *problem) {
	ask := func(what string, c kernel.Config) {
		k.tried(checkConfig)
		if _, err := k.b.Emit(ctx, k.host, p.Problem, c); !errors.Is(err, kernel.ErrConfig) {
			k.fail(checkConfig, "%s: %s: Emit returned %v", p, what, err)
		}
	}
	c := p.space.Default()
	c["no_such_parameter"] = 1
	ask("an unknown parameter", c)
	for _, q := range p.space.Params {
		c := p.space.Default()
		c[q.Name] = slices.Max(q.Values) + 1
		ask(fmt.Sprintf("%s=%d", q.Name, c[q.Name]), c)
		delete(c, q.Name)
		ask(q.Name+" missing", c)
		break
	}
}

// again emits everything once more, in reverse: a digest may depend on nothing but the question.
func (k *kit) again(ctx context.Context) {
	for _, p := range slices.Backward(k.problems) {
		for _, e := range slices.Backward(p.emitted) {
			if ctx.Err() != nil {
				return
			}
			k.tried(checkSame)
			a, err := k.emit(ctx, k.host, p.Problem, e.config)
			if err != nil || a.Digest() != e.digest {
				k.fail(checkSame, "%s with %s: emitted again it differs (%v)", p, e.config, err)
			}
		}
	}
}

// inert looks for parameters none of whose values changes any artifact: searching them is a waste.
func (k *kit) inert(ctx context.Context) {
	acts, seen := map[string]bool{}, map[string]bool{}
	for _, p := range k.problems {
		if len(p.emitted) == 0 {
			continue
		}
		for _, q := range p.space.Params {
			name := string(p.Op) + "." + q.Name
			if acts[name] || len(q.Values) < 2 {
				continue
			}
			seen[name] = true
			acts[name] = k.moves(ctx, p, q)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		k.tried(checkInert)
		if !acts[name] {
			k.note(checkInert, Warn, "%s: no value of it changes what runs", name)
		}
	}
}

// moves reports whether some value of q, all else at its default, gives another artifact.
func (k *kit) moves(ctx context.Context, p problem, q kernel.Param) bool {
	for _, v := range q.Values {
		c := p.space.Default()
		if c[q.Name] = v; v == q.Default || p.space.Check(c) != nil {
			continue
		}
		if a, err := k.emit(ctx, k.host, p.Problem, c); err == nil && a.Digest() != p.emitted[0].digest {
			return true
		}
	}
	return false
}

// random draws a configuration that the constraints allow; false if it finds none.
func random(r *rand.Rand, s kernel.Space) (kernel.Config, bool) {
	for range 64 {
		c := kernel.Config{}
		for _, p := range s.Params {
			c[p.Name] = p.Values[r.IntN(len(p.Values))]
		}
		if s.Check(c) == nil {
			return c, true
		}
	}
	return nil, false
}
