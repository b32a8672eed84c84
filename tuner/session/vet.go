package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// vetting stands between a search and the steps: a candidate that cannot be emitted, computes wrong
// numbers or crashes alone never reaches the loaded runner.
type vetting struct {
	t      *tune
	ctx    context.Context
	src    search.Source
	def    kernel.Choice
	end    time.Time
	failed map[string]string // by configuration, "" for good
}

// Measure vets new arms, then measures those that passed.
func (v *vetting) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	failures := map[int]string{}
	var good []int
	for _, i := range order {
		why, err := v.vet(arms[i])
		if err != nil {
			return search.Block{}, err
		}
		if why != "" && i > 0 {
			failures[i] = why
			continue
		}
		good = append(good, i)
	}
	b, err := v.src.Measure(arms, good)
	if err != nil {
		return b, err
	}
	if b.Failures == nil {
		b.Failures = map[int]string{}
	}
	for i, why := range failures {
		b.Failures[i] = why
	}
	for i, why := range b.Failures {
		v.failed[arms[i].String()] = why
	}
	return b, nil
}

func (v *vetting) vet(c kernel.Config) (string, error) {
	key := c.String()
	if why, seen := v.failed[key]; seen {
		return why, nil
	}
	if !v.t.now().Before(v.end) {
		return "", search.ErrBudget
	}
	why := ""
	err := v.t.vet(v.ctx, v.def, c)
	switch {
	case err == nil:
	case v.ctx.Err() != nil:
		return "", v.ctx.Err()
	case errors.Is(err, errNoProbe):
		return "", err
	default:
		why = fault{classOf(err), err.Error()}.String()
	}
	v.failed[key] = why
	return why, nil
}

// fail reports a candidate that failed; why begins with the class of the fault.
func (t *tune) fail(def kernel.Choice, c kernel.Config, why string) {
	slog.Info("candidate failed", "problem", def.Problem, "config", c, "why", why)
	class, detail, _ := strings.Cut(why, ": ")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.res.Failures = append(t.res.Failures, Failure{Backend: def.Backend, Config: c.String(), Class: class, Detail: def.Problem.String() + ": " + detail})
}

// vet emits a candidate for the real problem, and checks a twin of it, of few channels and groups,
// against the oracle.
func (t *tune) vet(ctx context.Context, def kernel.Choice, c kernel.Config) error {
	t.vetting.Lock() // one probe process serves all searches
	defer t.vetting.Unlock()
	ch := def
	ch.Config = c
	art, err := t.lab.plan.Artifact(ctx, ch)
	if err != nil {
		return err
	}
	if f, bad := t.lab.bad[artifactID(art)]; bad {
		return errors.New(f.why)
	}
	small := ch
	nr := small.Problem.Layout.NR()
	small.Problem.N = min(small.Problem.N, nr*(max(1, art.Exec.Streams)+2)-1)
	// Two groups, and two bodies of the inner loop at its longest.
	small.Problem.K = min(small.Problem.K, 2*max(small.Problem.Format.Unit(), 128))
	twin, err := t.Suite.Emit(ctx, small)
	if err != nil {
		return err
	}
	return t.lab.check(ctx, twin)
}
