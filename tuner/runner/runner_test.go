package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/wire"
)

// envFake makes this test binary, started as a runner, play a broken one.
const envFake = "TILEWRIGHT_TEST_FAKE_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(EnvServe) != "" {
		if mode := os.Getenv(envFake); mode != "" {
			fake(mode)
		}
		MaybeServe(Deps{Open: open, Probe: func(*kernel.Artifact) error { return errors.New("wrong numbers") }})
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(modulePath+"/tuner/runner.startAll"))
}

const modulePath = "github.com/tilewright/tilewright"

func open(r Ref) (*model.Model, error) { return engine.Preset(r.Preset) }

// fake answers the first request wrongly, in one of the ways that runners go wrong.
func fake(mode string) {
	f := os.NewFile(3, "runner")
	conn, err := net.FileConn(f)
	if err != nil {
		panic(err)
	}
	f.Close()
	var req wire.Request
	if err := wire.Read(conn, &req); err != nil {
		os.Exit(0)
	}
	id, err := whoAmI()
	if err != nil {
		panic(err)
	}
	id.Nonce = req.Nonce
	rep := wire.Reply{Nonce: req.Nonce, Receipt: id, Body: json.RawMessage(`{"rates":[1]}`)}
	switch mode {
	case "hang":
		time.Sleep(time.Hour)
	case "segv":
		fmt.Fprintln(os.Stderr, "SIGSEGV: segmentation violation\nPC=0x1\n\ngoroutine 1")
		os.Exit(2)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "hangup":
		conn.Close()
		time.Sleep(time.Hour)
	case "truncated":
		_, _ = conn.Write([]byte{200, 0, 0, 0, '{', '"'})
		os.Exit(0)
	case "oversized":
		_, _ = conn.Write([]byte{0, 0, 0, 0x7f, '{'})
		time.Sleep(time.Hour)
	case "no json":
		_, _ = conn.Write([]byte{3, 0, 0, 0, '{', '{', '{'})
		time.Sleep(time.Hour)
	case "empty":
		_ = wire.Write(conn, wire.Message{})
		time.Sleep(time.Hour)
	case "deaf": // asks without end and never reads the answers
		for wire.Write(conn, wire.Message{Ask: &wire.Ask{Op: askChoice, Body: json.RawMessage(`{}`)}}) == nil {
		}
		time.Sleep(time.Hour)
	case "old nonce":
		rep.Nonce = "0"
	case "old receipt":
		rep.Receipt.Nonce = "0"
	case "another process":
		rep.Receipt.PID++
	case "another start":
		rep.Receipt.Start++
	case "another program":
		rep.Receipt.Exe = "00"
	case "refusal":
		rep.Error = "no such layer"
	case "odd body":
		rep.Body = json.RawMessage(`{"rates":"fast"}`)
	}
	_ = wire.Write(conn, wire.Message{Reply: &rep})
	var more wire.Request
	_ = wire.Read(conn, &more)
	os.Exit(0)
}

// plan is a Planner that knows nothing.
type plan struct{}

func (plan) Layout(context.Context, model.Class) (kernel.Layout, error) {
	return kernel.Layout{}, kernel.ErrUnsupported
}
func (plan) Choice(context.Context, kernel.Problem) (kernel.Choice, error) {
	return kernel.Choice{}, kernel.ErrUnsupported
}
func (plan) Artifact(context.Context, kernel.Choice) (*kernel.Artifact, error) {
	return nil, kernel.ErrUnsupported
}

func start(t *testing.T, mode string) *Runner {
	t.Helper()
	t.Setenv(envFake, mode)
	r, err := Start(t.Context(), plan{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// Whatever a runner does wrong ends the job soon, is told apart, and leaves no process behind.
func TestBrokenRunners(t *testing.T) {
	impostor := func(err error) bool { return errors.Is(err, ErrImpostor) }
	crash := func(reason string) func(error) bool {
		return func(err error) bool {
			var c *Crash
			return errors.As(err, &c) && c.Job == opBench && strings.Contains(c.Reason, reason)
		}
	}
	for mode, want := range map[string]func(error) bool{
		"hang": crash("timeout"), "segv": crash("SIGSEGV"), "killed": crash("killed"), "hangup": crash("killed"),
		"truncated": crash("cut short"), "oversized": crash("claims"), "no json": crash("malformed"), "empty": crash("neither"),
		"deaf": crash("timeout"), "old nonce": impostor, "old receipt": impostor, "another process": impostor,
		"another start": impostor, "another program": impostor,
	} {
		r := start(t, mode)
		limit := 20 * time.Second
		if mode == "hang" || mode == "deaf" {
			limit = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := r.Bench(ctx, Bench{Test: bench.PP512, Reps: 1}, nil)
		cancel()
		if !want(err) {
			t.Errorf("%s: %v", mode, err)
		}
		select {
		case <-r.exited:
		default:
			t.Errorf("%s: the process was left running", mode)
		}
		if _, again := r.Bench(t.Context(), Bench{}, nil); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: a dead runner was asked again: %v", mode, again)
		}
	}
}

// A refusal and an answer that is not what was asked for leave the runner alive.
func TestRefusalIsNoCrash(t *testing.T) {
	r := start(t, "refusal")
	_, err := r.Bench(t.Context(), Bench{}, nil)
	var no *Refusal
	if !errors.As(err, &no) || no.Why != "no such layer" || r.dead != nil {
		t.Errorf("%v, dead: %v", err, r.dead)
	}
	r = start(t, "odd body")
	if _, err := r.Bench(t.Context(), Bench{}, nil); !errors.Is(err, wire.ErrFrame) || r.dead != nil {
		t.Errorf("%v, dead: %v", err, r.dead)
	}
	r = start(t, "fine")
	var rec wire.Receipt
	if b, err := r.Bench(t.Context(), Bench{}, &rec); err != nil || len(b.Rates) != 1 || rec.Nonce != r.Expected().Nonce || rec.PID != r.Expected().PID {
		t.Errorf("%v, %v, %+v", b, err, rec)
	}
}

// A job has a limit of its own: a caller that would wait for ever does not.
func TestJobsHaveLimits(t *testing.T) {
	r := start(t, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := call[Benched](ctx, r, opBench, Bench{}, 100*time.Millisecond, nil)
	var c *Crash
	if !errors.As(err, &c) || !strings.Contains(c.Reason, "timeout") || ctx.Err() != nil {
		t.Errorf("%v, context %v", err, ctx.Err())
	}
}

// The caller's cancellation is not a crash: nothing is quarantined for it.
func TestCancelIsNoCrash(t *testing.T) {
	r := start(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := r.Bench(ctx, Bench{}, nil)
	var c *Crash
	if !errors.Is(err, context.Canceled) || errors.As(err, &c) {
		t.Error(err)
	}
}

// The real serving side: order of jobs, unknown jobs, malformed bodies and a failed probe are
// refusals; a plan that has nothing is told as such.
func TestServe(t *testing.T) {
	r := start(t, "")
	refused := func(what string, err error) {
		t.Helper()
		var no *Refusal
		if !errors.As(err, &no) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := r.Bench(t.Context(), Bench{}, nil)
	refused("bench before load", err)
	_, err = call[struct{}](t.Context(), r, "dance", nil, limitSmall, nil)
	refused("unknown job", err)
	_, err = call[struct{}](t.Context(), r, opProbe, "text", limitSmall, nil)
	refused("body", err)
	refused("probe", r.Probe(t.Context(), &kernel.Artifact{}))
	_, err = r.Load(t.Context(), Load{Model: Ref{Preset: "smollm2-135m"}, Numerics: model.Numerics{Weights: model.W4A8}})
	refused("load without a plan", err)
	if err == nil || !strings.Contains(err.Error(), kernel.ErrUnsupported.Error()) {
		t.Errorf("load: %v", err)
	}
}

func TestHeadKeepsTheFirstLines(t *testing.T) {
	var h head
	for range 1000 {
		if n, err := h.Write([]byte("0123456789\n")); n != 11 || err != nil {
			t.Fatal(n, err)
		}
	}
	if h.b.Len() != headBytes || h.first() != "0123456789 | 0123456789 | 0123456789" {
		t.Errorf("%d bytes, %q", h.b.Len(), h.first())
	}
}

// The limit of a workload grows with it: a big model on a slow machine is no hang.
func TestBenchLimitGrowsWithTheWork(t *testing.T) {
	small, big := benchLimit(Bench{Test: bench.Test{Gen: 1}, Reps: 1}), benchLimit(Bench{Test: bench.Test{Gen: 128, Depth: 4096}, Reps: 5})
	if small > 2*time.Minute || big < 2*time.Hour {
		t.Errorf("%v for a token, %v for 640 at 4096", small, big)
	}
}
