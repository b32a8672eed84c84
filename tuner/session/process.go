package session

import (
	"context"
	"errors"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// process is what a tune needs of a runner.
type process interface {
	Load(ctx context.Context, l runner.Load) (runner.Loaded, error)
	Bench(ctx context.Context, b runner.Bench, rec *wire.Receipt) (runner.Benched, error)
	Step(ctx context.Context, st runner.Step, artifacts map[string]*kernel.Artifact, rec *wire.Receipt) (runner.StepTimes, error)
	Lay(ctx context.Context, l runner.Lay) error
	SetKnobs(ctx context.Context, k kernel.Knobs) error
	Pack(ctx context.Context, p runner.Pack) (float64, error)
	Probe(ctx context.Context, a *kernel.Artifact) error
	// Expected is what the receipt of the last job had to show.
	Expected() wire.Receipt
	Close()
}

var _ process = (*runner.Runner)(nil)

// startRunner starts a fresh process for an arm. A test puts another in its place.
func startRunner(ctx context.Context, p *planner) (process, error) { return runner.Start(ctx, p) }

// errBudget ends what the deadline overtook. It is no failure: what is known by then is judged.
var errBudget = errors.New("the budget is spent")

// within is ctx until the deadline. What runs then is cancelled, not taken for a hang of its own.
func (t *tune) within(ctx context.Context) (context.Context, context.CancelFunc) {
	c, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(t.left()-reserve/2, func() { cancel(errBudget) })
	return c, func() { timer.Stop(); cancel(nil) }
}

// overtaken turns the error of something that the deadline overtook into errBudget.
func overtaken(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errBudget {
		return errBudget
	}
	return err
}
