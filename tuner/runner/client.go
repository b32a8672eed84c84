package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/wire"
)

// Planner answers what a runner asks while it loads: layouts, configurations, artifacts.
type Planner interface {
	Layout(ctx context.Context, c model.Class) (kernel.Layout, error)
	Choice(ctx context.Context, p kernel.Problem) (kernel.Choice, error)
	Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error)
}

// Refusal is a job that a runner could not do: it says why, and lives on.
type Refusal struct{ Job, Why string }

func (r *Refusal) Error() string { return fmt.Sprintf("runner: %s: %s", r.Job, r.Why) }

// Runner is a runner process. It does one job at a time and is not safe for concurrent use.
type Runner struct {
	cmd     *exec.Cmd
	conn    net.Conn
	planner Planner
	stderr  *head
	exited  chan struct{}
	waitErr error
	sent    map[string]bool // artifacts that it has
	id      wire.Receipt    // pid, start, exe of the process that was started
	nonce   string          // of the last job
	dead    error
}

// Limits of jobs: a hang costs no more. A caller's deadline, if earlier, counts as a hang too.
const (
	limitLoad  = 10 * time.Minute
	limitBench = time.Minute // and for each token
	limitToken = 2 * time.Second
	limitStep  = 2 * time.Minute
	limitSmall = time.Minute
	limitProbe = 10 * time.Second
)

// Load loads a model.
func (r *Runner) Load(ctx context.Context, l Load) (Loaded, error) {
	return call[Loaded](ctx, r, opLoad, l, limitLoad, nil)
}

// Step runs an in-situ step; artifacts maps the ids that the plans name. The receipt says what ran.
func (r *Runner) Step(ctx context.Context, st Step, artifacts map[string]*kernel.Artifact, rec *wire.Receipt) (StepTimes, error) {
	st.Artifacts = map[string]kernel.Artifact{}
	for _, p := range st.Plans {
		for _, id := range p.Artifacts {
			if a := artifacts[id]; a != nil && !r.sent[id] {
				st.Artifacts[id] = *a
			}
		}
	}
	out, err := call[StepTimes](ctx, r, opStep, st, limitStep, rec)
	if err == nil {
		for id := range st.Artifacts {
			r.sent[id] = true
		}
	}
	return out, err
}

// Bench runs a workload.
func (r *Runner) Bench(ctx context.Context, b Bench, rec *wire.Receipt) (Benched, error) {
	return call[Benched](ctx, r, opBench, b, benchLimit(b), rec)
}

// benchLimit grows with the work: no engine that is alive takes two seconds for a token.
func benchLimit(b Bench) time.Duration {
	return limitBench + time.Duration(b.Test.Depth+b.Test.Tokens()*max(1, b.Reps))*limitToken
}

// SetKnobs changes the knobs that need no reload.
func (r *Runner) SetKnobs(ctx context.Context, k kernel.Knobs) error {
	_, err := call[struct{}](ctx, r, opKnobs, k, limitSmall, nil)
	return err
}

// Pack times the packing of a layer.
func (r *Runner) Pack(ctx context.Context, p Pack) (float64, error) {
	return call[float64](ctx, r, opPack, p, limitSmall, nil)
}

// Lay repacks matrices into another layout. Their layers run the plan's kernels until a Step sets others.
func (r *Runner) Lay(ctx context.Context, l Lay) error {
	_, err := call[struct{}](ctx, r, opLay, l, limitStep, nil)
	return err
}

// Expected is what the receipt of the job that ended last had to show: the process that was started
// and the nonce that was sent.
func (r *Runner) Expected() wire.Receipt {
	e := r.id
	e.Nonce = r.nonce
	return e
}

// Probe checks one artifact against the oracle.
func (r *Runner) Probe(ctx context.Context, a *kernel.Artifact) error {
	_, err := call[struct{}](ctx, r, opProbe, a, limitProbe, nil)
	return err
}

// call sends a job, answers what the runner asks meanwhile, and returns its result. A reply of
// another process or with another nonce is refused.
func call[Out any](ctx context.Context, r *Runner, op string, in any, limit time.Duration, rec *wire.Receipt) (Out, error) {
	var out Out
	if r.dead != nil {
		return out, r.dead
	}
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("runner: %w", err)
	}
	req := wire.Request{Nonce: wire.NewNonce(), Op: op, Body: body}
	r.nonce = req.Nonce
	rep, err := r.converse(ctx, req, limit)
	if err != nil {
		return out, err
	}
	if err := r.check(req, rep); err != nil {
		r.kill() // who answers for another once cannot be asked again
		<-r.exited
		r.dead = err
		return out, err
	}
	if rec != nil {
		*rec = rep.Receipt
	}
	if rep.Error != "" {
		return out, &Refusal{op, rep.Error}
	}
	if err := json.Unmarshal(rep.Body, &out); err != nil {
		return out, fmt.Errorf("runner: %s: %w: %v", op, wire.ErrFrame, err)
	}
	return out, nil
}

// ErrImpostor is wrapped when a reply does not come from the process that was asked.
var ErrImpostor = errors.New("reply is not from the runner that was asked")

func (r *Runner) check(req wire.Request, rep *wire.Reply) error {
	got := rep.Receipt
	switch {
	case rep.Nonce != req.Nonce || got.Nonce != req.Nonce:
		return fmt.Errorf("%w: another nonce", ErrImpostor)
	case got.PID != r.id.PID || got.Start != r.id.Start:
		return fmt.Errorf("%w: process %d started at %d, expected %d at %d", ErrImpostor, got.PID, got.Start, r.id.PID, r.id.Start)
	case got.Exe != r.id.Exe:
		return fmt.Errorf("%w: executable %.12s, expected %.12s", ErrImpostor, got.Exe, r.id.Exe)
	}
	return nil
}

func (r *Runner) converse(ctx context.Context, req wire.Request, limit time.Duration) (*wire.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, r.kill)
	defer stop()
	err := wire.Write(r.conn, req)
	for err == nil {
		var m wire.Message
		if err = wire.Read(r.conn, &m); err != nil {
			break
		}
		switch {
		case m.Reply != nil:
			return m.Reply, nil
		case m.Ask != nil:
			err = wire.Write(r.conn, r.answer(ctx, *m.Ask))
		default:
			err = fmt.Errorf("%w: neither ask nor reply", wire.ErrFrame)
		}
	}
	r.kill() // whatever went wrong, the conversation cannot go on
	<-r.exited
	r.dead = r.autopsy(ctx, req.Op, err)
	return nil, r.dead
}

func (r *Runner) answer(ctx context.Context, a wire.Ask) wire.Answer {
	v, err := r.lookUp(ctx, a)
	if err != nil {
		return wire.Answer{Error: err.Error(), Unsupported: errors.Is(err, kernel.ErrUnsupported)}
	}
	body, err := json.Marshal(v)
	if err != nil {
		return wire.Answer{Error: err.Error()}
	}
	return wire.Answer{Body: body}
}

func (r *Runner) lookUp(ctx context.Context, a wire.Ask) (any, error) {
	switch a.Op {
	case askLayout:
		var c model.Class
		if err := json.Unmarshal(a.Body, &c); err != nil {
			return nil, err
		}
		return r.planner.Layout(ctx, c)
	case askChoice:
		var p kernel.Problem
		if err := json.Unmarshal(a.Body, &p); err != nil {
			return nil, err
		}
		c, err := r.planner.Choice(ctx, p)
		if err != nil {
			return nil, err
		}
		art, err := r.planner.Artifact(ctx, c)
		if err != nil {
			return nil, err
		}
		return Planned{c, *art}, nil
	}
	return nil, fmt.Errorf("unknown question %q", a.Op)
}
