package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// asked is what a call asks for, the unit of quarantine.
type asked struct {
	call    string
	of      string
	problem kernel.Problem
	config  kernel.Config
}

func (a asked) key() string {
	return fmt.Sprintf("%s|%s|%+v|%s", a.call, a.of, a.problem, a.config)
}

// call runs one RPC under a deadline in the backend's process, which it starts if need be, and
// translates what comes back.
func (p *Plugin) call(ctx context.Context, a asked, rpc func(context.Context, pb.BackendClient) error) error {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if p.closed {
		return fmt.Errorf("backend %s is closed", p.src.Name)
	}
	if e := p.quarantine[a.key()]; e != nil {
		again := *e
		again.Again = true
		return &again
	}
	for restarts := 0; ; restarts++ {
		err := p.try(ctx, a, rpc)
		again := false
		switch deathOf(err) {
		case "":
			if err == nil && restarts == 0 { // an answer at last does not undo the deaths before it
				p.crashes = 0
			}
		case ReasonKilled:
			again = restarts < maxRestarts
		case ReasonHang:
			p.hangs++
			again = restarts < maxRestarts && p.hangs < maxHangs && a.call != callManifest
		}
		if again && ctx.Err() == nil {
			p.opts.Log.Warn("backend was stopped or killed: starting it again", "backend", p.src.Name, "call", a.call, "why", err)
			p.outlived(err)
			continue
		}
		if e, ok := IsCrash(err); ok && e.Reason != ReasonGaveUp {
			p.quarantine[a.key()] = e
		}
		return err
	}
}

// maxRestarts is how often a backend is started again for one call because it was killed from outside,
// which is no fault of the call's unless it happens every time.
const maxRestarts = 3

// maxHangs is how many hangs of a backend, over its whole life, are taken for its own. Before, one that gave
// no answer in time may have been stopped from outside: it is asked again, with the same time. From then on
// what it hangs over is quarantined at once, so that its hangs cost their time once each. The manifest is
// asked for once in any case: nothing is lost with a backend that has served nothing yet, and a file that
// hangs costs every start its time.
const maxHangs = 2

// callManifest is the first call of every backend.
const callManifest = "manifest"

// deathOf is the reason of a death, in a call or at the start, "" for other errors.
func deathOf(err error) Reason {
	if e, ok := IsCrash(err); ok {
		return e.Reason
	}
	var e *StartError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// outlived keeps a death after which the same was asked again.
func (p *Plugin) outlived(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaths = append(p.deaths, err)
}

// Outlived lists the deaths after which the backend was started and asked the same again, in order.
func (p *Plugin) Outlived() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.deaths)
}

// try runs one RPC; whoever calls has the turn.
func (p *Plugin) try(ctx context.Context, a asked, rpc func(context.Context, pb.BackendClient) error) error {
	if err := p.ensure(ctx); err != nil {
		return err
	}
	inner, cancel := context.WithTimeout(ctx, p.opts.CallTimeout)
	defer cancel()
	err := rpc(inner, p.sess.rpc)
	if err == nil {
		p.sess.dropSocket()
		return nil
	}
	return p.translate(ctx, inner, a, err)
}

// ensure has a process running.
func (p *Plugin) ensure(ctx context.Context) error {
	if p.sess != nil && p.sess.exited() { // between calls: nobody is to blame
		p.opts.Log.Warn("backend was gone: starting it again", "backend", p.src.Name, "why", p.sess.proc.cmd.ProcessState)
		p.stop()
	}
	if p.sess != nil {
		return nil
	}
	if p.crashes >= p.opts.MaxCrashes {
		return &ErrBackendCrashed{Backend: p.src.Name, Call: "start", Reason: ReasonGaveUp,
			Detail: fmt.Sprintf("%d crashes in a row", p.crashes)}
	}
	s, err := start(ctx, p.src, p.exe, p.env, p.opts)
	if err != nil {
		p.crashes++
		return err
	}
	p.sess = s
	return nil
}

// translate maps the failure of an RPC to an error of the kernel's, or to a crash.
func (p *Plugin) translate(ctx, inner context.Context, a asked, err error) error {
	code := status.Code(err)
	late := code == codes.DeadlineExceeded || code == codes.Canceled && !p.sess.exited() // the backend's clock may be first
	if inner.Err() != nil || late {
		// It may still be at work: end it, so that the next call finds a fresh process.
		p.stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return p.crashed(a, ReasonHang, fmt.Sprintf("no answer within %v", p.opts.CallTimeout))
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() == codes.OK {
		return fmt.Errorf("backend %s: %s: %w", p.src.Name, a.call, err) // refused by package wire or by validation
	}
	switch st.Code() {
	case codes.FailedPrecondition:
		return &remoteError{p.src.Name, st.Message(), kernel.ErrUnsupported}
	case codes.InvalidArgument:
		return &remoteError{p.src.Name, st.Message(), kernel.ErrConfig}
	case codes.Aborted:
		return p.crashed(a, ReasonPanic, firstLine(st.Message()))
	case codes.ResourceExhausted:
		return fmt.Errorf("backend %s: %s: %w: message too large: %s", p.src.Name, a.call, wire.ErrInvalid, clip(st.Message()))
	case codes.Unavailable, codes.Canceled: // the connection broke
		if p.sess.proc != nil {
			return p.autopsy(a, st.Message())
		}
	}
	return &remoteError{p.src.Name, a.call + ": " + st.Message(), nil}
}

// autopsy ends a process whose connection broke and says what it died of.
func (p *Plugin) autopsy(a asked, message string) error {
	proc := p.sess.proc
	select {
	case <-proc.done:
	case <-time.After(time.Second): // connection gone, process not
	}
	p.stop()
	if proc.wasKilled() {
		return p.crashed(a, ReasonAbort, "it closed its connection: "+clip(message))
	}
	reason, detail := classify(proc.cmd.ProcessState, proc.stderr.String())
	return p.crashed(a, reason, detail)
}

// crashed counts a crash and returns it.
func (p *Plugin) crashed(a asked, r Reason, detail string) error {
	p.crashes++
	e := &ErrBackendCrashed{Backend: p.src.Name, Call: a.call, Reason: r, Detail: detail, Problem: a.problem}
	if a.config != nil {
		e.Config = a.config.Clone()
	}
	p.opts.Log.Warn("backend crashed", "backend", p.src.Name, "call", a.call, "reason", r, "detail", detail, "config", a.config.String())
	return e
}

// remoteError is an error that a backend reported, with the kernel error that it stands for.
type remoteError struct {
	backend, message string
	is               error
}

func (e *remoteError) Error() string { return "backend " + e.backend + ": " + clip(e.message) }

// Unwrap makes errors.Is work as for a backend in the same process.
func (e *remoteError) Unwrap() error { return e.is }

// IsCrash reports whether err is a crash of a backend.
func IsCrash(err error) (*ErrBackendCrashed, bool) {
	var e *ErrBackendCrashed
	ok := errors.As(err, &e)
	return e, ok
}
