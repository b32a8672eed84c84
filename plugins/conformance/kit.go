package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// Names of the checks, in the order of the report.
const (
	checkManifest  = "the manifest is sane and stable"
	checkRefuse    = "what is not supported is refused with ErrUnsupported"
	checkOps       = "every op of the manifest is supported for some problem"
	checkSpace     = "spaces are valid and deterministic"
	checkConfig    = "configurations outside the space are refused with ErrConfig"
	checkEmit      = "default and random configurations emit"
	checkArtifact  = "artifacts are valid and made for what was asked"
	checkISA       = "artifacts need no more than the host offers and no less than the manifest says"
	checkSame      = "emission does not depend on what was emitted before"
	checkCaches    = "emission does not depend on the caches that the host tells of"
	checkInert     = "every parameter changes what runs"
	checkInputs    = "inputs are left alone"
	checkNumerics  = "results agree with the oracles"
	checkCompleted = "completed"
)

var order = []string{checkManifest, checkRefuse, checkOps, checkSpace, checkConfig, checkEmit, checkArtifact, checkISA,
	checkSame, checkCaches, checkInert, checkInputs, checkNumerics, checkCompleted}

// kit is one run.
type kit struct {
	b        kernel.Backend
	o        Options
	man      kernel.Manifest
	host     kernel.Features // what emission is asked for: the host's features and the backend's
	checks   map[string]*Check
	problems []problem
}

// problem is one that the backend does, with what was emitted for it.
type problem struct {
	kernel.Problem
	space   kernel.Space
	emitted []emitted
}

type emitted struct {
	config   kernel.Config
	digest   string
	artifact *kernel.Artifact
}

func (k *kit) check(name string) *Check {
	c := k.checks[name]
	if c == nil {
		c = &Check{Name: name, Status: Pass}
		k.checks[name] = c
	}
	return c
}

func (k *kit) tried(name string) { k.check(name).Tried++ }

const maxDetail = 5

func (k *kit) note(name string, s Status, format string, v ...any) {
	c := k.check(name)
	if c.Status != Fail {
		c.Status = s
	}
	if len(c.Detail) < maxDetail {
		c.Detail = append(c.Detail, fmt.Sprintf(format, v...))
	}
}

func (k *kit) fail(name, format string, v ...any) {
	k.note(name, Fail, format, v...)
	k.check(name).Failed++
}

func (k *kit) report() Report {
	r := Report{Backend: k.man.Name, Manifest: k.man, Passed: true, Problems: len(k.problems)}
	for _, n := range order {
		if c := k.checks[n]; c != nil {
			r.Checks = append(r.Checks, c)
			r.Passed = r.Passed && c.Status != Fail
		}
	}
	return r
}

func (k *kit) run(ctx context.Context) {
	if !k.manifest(ctx) {
		return
	}
	k.refusals(ctx)
	k.findProblems(ctx)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range k.problems {
		if ctx.Err() != nil {
			return
		}
		k.emitAll(ctx, r, &k.problems[i])
	}
	k.again(ctx)
	k.inert(ctx)
	if !k.o.Emission {
		k.numerics(ctx)
	}
}

func (k *kit) manifest(ctx context.Context) bool {
	k.tried(checkManifest)
	m, err := k.b.Manifest(ctx)
	if err == nil {
		err = wire.CheckManifest(m)
	}
	if err != nil {
		k.fail(checkManifest, "%v", err)
		return false
	}
	if m2, err := k.b.Manifest(ctx); err != nil || !reflect.DeepEqual(m, m2) {
		k.fail(checkManifest, "asked twice it answered differently: %v", err)
	}
	k.man = m
	k.host = kernel.NewFeatures(append(slices.Clone(k.o.Features), m.Requires...)...)
	return true
}

// refusals asks for what no backend does, or not on such a host.
func (k *kit) refusals(ctx context.Context) {
	ask := func(what string, host kernel.Features, p kernel.Problem) {
		k.tried(checkRefuse)
		if _, err := k.b.Space(ctx, host, p); !errors.Is(err, kernel.ErrUnsupported) {
			k.fail(checkRefuse, "%s: Space returned %v", what, err)
		}
		if _, err := k.b.Emit(ctx, host, p, kernel.Config{}); err == nil {
			k.fail(checkRefuse, "%s: Emit returned an artifact", what)
		}
	}
	ask("an op that does not exist", k.host, kernel.Problem{Op: "no_such_op"})
	for _, op := range allOps {
		if !slices.Contains(k.man.Ops, op) {
			ask("op "+string(op)+", not in the manifest", k.host, candidates(op, kernel.Layout{Lanes: 16, Cols: 1})[0])
		}
	}
	ps := candidates(k.man.Ops[0], kernel.Layout{Lanes: 16, Cols: 1})
	if len(ps) == 0 {
		return // an op without an oracle: findProblems says so
	}
	for _, f := range k.man.Requires {
		ask("a host without "+f, k.host.Without(f), ps[0])
	}
}

// findProblems picks, per op, problems that the backend does, spread over all candidates.
func (k *kit) findProblems(ctx context.Context) {
	layouts := k.layouts(ctx)
	for _, op := range k.man.Ops {
		var all []kernel.Problem
		for _, l := range layouts {
			all = append(all, candidates(op, l)...)
		}
		k.tried(checkOps)
		found := 0
		// A stride that is coprime to most lengths visits the list evenly.
		for i := 0; i < len(all) && found < k.o.Problems && ctx.Err() == nil; i++ {
			p := all[i*7919%len(all)]
			if slices.ContainsFunc(k.problems, func(q problem) bool { return q.Problem == p }) {
				continue
			}
			if k.space(ctx, p) {
				found++
			}
		}
		if found == 0 {
			k.fail(checkOps, "%s: none of %d problems, in layouts %v", op, len(all), layouts)
		}
	}
}

// layouts are those that the backend lists for any format, with their formats checked.
func (k *kit) layouts(ctx context.Context) []kernel.Layout {
	var out []kernel.Layout
	for _, f := range formats {
		ls, err := k.b.Layouts(ctx, k.host, f)
		if err != nil {
			if !errors.Is(err, kernel.ErrUnsupported) {
				k.fail(checkRefuse, "layouts of %s: %v", f, err)
			}
			continue
		}
		for _, l := range ls {
			if err := l.Validate(f); err != nil {
				k.fail(checkSpace, "layouts of %s: %v", f, err)
			} else if !slices.Contains(out, l) {
				out = append(out, l)
			}
		}
	}
	if len(out) == 0 {
		out = []kernel.Layout{{Lanes: 16, Cols: 1}}
	}
	return out
}

// space asks for a problem's space; true if the backend does the problem.
func (k *kit) space(ctx context.Context, p kernel.Problem) bool {
	s, err := k.b.Space(ctx, k.host, p)
	if errors.Is(err, kernel.ErrUnsupported) {
		return false
	}
	k.tried(checkSpace)
	if err == nil {
		err = wire.CheckSpace(s)
	}
	if err != nil {
		k.fail(checkSpace, "%s: %v", p, err)
		return false
	}
	if s2, err := k.b.Space(ctx, k.host, p); err != nil || normal(s) != normal(s2) {
		k.fail(checkSpace, "%s: asked twice it answered differently: %v", p, err)
	}
	for _, q := range s.Params {
		if q.Doc == "" {
			k.note(checkSpace, Warn, "%s: parameter %s has no doc", p, q.Name)
		}
	}
	k.problems = append(k.problems, problem{Problem: p, space: s})
	return true
}

// normal makes empty and nil lists equal.
func normal(s kernel.Space) string { return fmt.Sprintf("%+v", s) }
