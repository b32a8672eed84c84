package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/preflight"
	"github.com/tilewright/tilewright/tuner/runner"
)

// rig is a loaded runner and the class of matrices that is measured in it.
type rig struct {
	f        flags
	host     *app.Host
	backends *app.Backends
	suite    *kernel.Suite
	run      *runner.Runner
	watch    *preflight.Watch
	class    model.Class
	def      kernel.Choice
	space    kernel.Space
	made     map[string]*kernel.Artifact // by configuration
}

func newRig(ctx context.Context, f flags) (*rig, error) {
	r := &rig{f: f, made: map[string]*kernel.Artifact{}}
	var err error
	if r.host, err = app.NewHost(ctx, ""); err != nil {
		return nil, err
	}
	if r.backends, err = app.NewBackends(ctx, r.host, "", ""); err != nil {
		return nil, err
	}
	if r.suite, err = r.backends.Suite(ctx); err != nil {
		return nil, err
	}
	ref := runner.Ref{Preset: f.preset}
	m, err := app.OpenModel(ref)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	num := model.Numerics{Weights: model.W4A8}
	classes, err := m.Classes(num)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(classes, func(c model.Class) bool { return c.Role == f.class && len(c.Layers) > 1 })
	if i < 0 {
		return nil, fmt.Errorf("the model has no class of role %q over several layers", f.class)
	}
	r.class = classes[i]
	if err := r.problem(ctx); err != nil {
		return nil, err
	}
	if r.run, err = runner.Start(ctx, r); err != nil {
		return nil, err
	}
	_, err = r.run.Load(ctx, runner.Load{Model: ref, Numerics: num, Context: 1024, Knobs: kernel.DefaultKnobs(len(r.host.CPUs)),
		CPUs: r.host.CPUs, Host: r.host.Features})
	r.watch = preflight.NewWatch(preflight.Live(), r.host.CPUs, preflight.DefaultLimits())
	return r, err
}

// problem finds the default and the space of the class at M.
func (r *rig) problem(ctx context.Context) error {
	l, err := r.suite.Layout(ctx, r.class.Format)
	if err != nil {
		return err
	}
	p := r.class.Problem(model.W4A8, r.f.m, l)
	if r.def, err = r.suite.Default(ctx, p); err != nil {
		return err
	}
	s, err := r.suite.Backends[r.def.Backend].Space(ctx, r.suite.Host, p)
	if err != nil {
		return err
	}
	r.space, err = narrow(s, r.f.values)
	return err
}

func (r *rig) close() {
	if r.run != nil {
		r.run.Close()
	}
	r.backends.Close()
}

// Layout, Choice and Artifact answer the runner: the default arm.
func (r *rig) Layout(ctx context.Context, c model.Class) (kernel.Layout, error) {
	return r.suite.Layout(ctx, c.Format)
}

func (r *rig) Choice(ctx context.Context, p kernel.Problem) (kernel.Choice, error) {
	return r.suite.Default(ctx, p)
}

func (r *rig) Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	return r.suite.Emit(ctx, c)
}

// Step runs one pass with every layer's candidate in place.
func (r *rig) Step(ctx context.Context, as []insitu.Assignment) ([]insitu.Timing, string, error) {
	plan := runner.ClassPlan{Class: r.class, M: r.f.m}
	arts := map[string]*kernel.Artifact{}
	for _, c := range as[0].Config {
		a, err := r.artifact(ctx, c)
		if err != nil {
			return nil, "", err
		}
		id := kernel.KeyDigest(a.Key)
		arts[id] = a
		plan.Artifacts = append(plan.Artifacts, id)
	}
	st := runner.Step{Plans: []runner.ClassPlan{plan}}
	st.Test, st.Warm, st.Repeat = test(r.f.m, r.f.rows)
	mark := r.watch.Begin()
	got, err := r.run.Step(ctx, st, arts, nil)
	if err != nil {
		return nil, "", err
	}
	why := strings.Join(r.watch.End(mark).Reasons, "; ")
	if why == "" {
		why = got.Wait.Why()
	}
	return []insitu.Timing{{Class: as[0].Class, Seconds: got.Layers[0]}}, why, nil
}

func (r *rig) artifact(ctx context.Context, c kernel.Config) (*kernel.Artifact, error) {
	if a := r.made[c.String()]; a != nil {
		return a, nil
	}
	ch := r.def
	ch.Config = c
	a, err := r.suite.Emit(ctx, ch)
	if err != nil {
		return nil, fmt.Errorf("emit %s: %w", c, err)
	}
	r.made[c.String()] = a
	return a, nil
}
