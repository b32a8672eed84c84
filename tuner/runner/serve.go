package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/preflight"
	"github.com/tilewright/tilewright/tuner/wire"
)

// EnvServe marks a process that a tuner started as its runner; descriptor 3 is the conversation.
const EnvServe = "TILEWRIGHT_RUNNER"

// Deps are what a runner needs of its program.
type Deps struct {
	// Open opens a model.
	Open func(Ref) (*model.Model, error)
	// Probe runs an artifact alone against the oracle, between guard pages.
	Probe func(*kernel.Artifact) error
	// Threads looks at the threads of this process; nil for what /proc says.
	Threads func() map[int]preflight.Thread
}

// MaybeServe serves and exits if this process was started as a runner. Call it early in main.
func MaybeServe(d Deps) {
	if os.Getenv(EnvServe) == "" {
		return
	}
	conn, err := net.FileConn(os.NewFile(3, "runner"))
	if err == nil {
		err = serve(context.Background(), conn, d)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers jobs until the tuner hangs up.
func serve(ctx context.Context, conn io.ReadWriter, d Deps) error {
	id, err := whoAmI()
	if err != nil {
		return err
	}
	if d.Threads == nil {
		root := os.DirFS("/")
		d.Threads = func() map[int]preflight.Thread { return preflight.Threads(root, os.Getpid()) }
	}
	s := &server{conn: conn, deps: d, artifacts: map[string]*kernel.Artifact{}}
	defer s.close()
	for {
		var req wire.Request
		if err := wire.Read(conn, &req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if s.e != nil {
			s.e.ResetReceipts()
		}
		body, err := s.do(ctx, req)
		rep := wire.Reply{Nonce: req.Nonce, Receipt: id}
		rep.Receipt.Nonce = req.Nonce
		if err != nil {
			rep.Error = err.Error()
		} else if rep.Body, err = json.Marshal(body); err != nil {
			return err
		}
		s.sign(&rep.Receipt)
		if err := wire.Write(conn, wire.Message{Reply: &rep}); err != nil {
			return err
		}
	}
}

type server struct {
	conn      io.ReadWriter
	deps      Deps
	model     *model.Model
	e         *engine.Engine
	b         *bench.Bench
	seen      times
	artifacts map[string]*kernel.Artifact
}

func (s *server) close() {
	if s.b != nil {
		s.b.Close()
	}
	if s.e != nil {
		s.e.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
	s.b, s.e, s.model = nil, nil, nil
}

// sign adds what ran to a receipt.
func (s *server) sign(r *wire.Receipt) {
	if s.e == nil {
		return
	}
	workers := wire.Workers(s.e.Workers())
	r.Workers = &workers
	r.Calls = map[string]int64{}
	for _, x := range s.e.Receipts() {
		r.Calls[x.Digest] += x.Calls
		r.Bytes += x.Bytes
	}
}

func (s *server) do(ctx context.Context, req wire.Request) (any, error) {
	if s.e == nil && req.Op != opLoad && req.Op != opProbe {
		return nil, fmt.Errorf("%s before %s", req.Op, opLoad)
	}
	switch req.Op {
	case opLoad:
		return run(ctx, req.Body, s.load)
	case opStep:
		return run(ctx, req.Body, s.step)
	case opBench:
		return run(ctx, req.Body, s.bench)
	case opKnobs:
		return run(ctx, req.Body, func(_ context.Context, k kernel.Knobs) (struct{}, error) {
			return struct{}{}, s.e.SetKnobs(k)
		})
	case opPack:
		return run(ctx, req.Body, func(ctx context.Context, p Pack) (float64, error) { return s.e.TimePack(ctx, p.Layer, p.Rows) })
	case opLay:
		return run(ctx, req.Body, s.lay)
	case opProbe:
		return run(ctx, req.Body, func(_ context.Context, a kernel.Artifact) (struct{}, error) {
			return struct{}{}, s.deps.Probe(&a)
		})
	}
	return nil, fmt.Errorf("unknown job %q", req.Op)
}

// run decodes a job's body and does it.
func run[In, Out any](ctx context.Context, body json.RawMessage, f func(context.Context, In) (Out, error)) (any, error) {
	var in In
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%w: %v", wire.ErrFrame, err)
	}
	return f(ctx, in)
}

func (s *server) load(ctx context.Context, l Load) (Loaded, error) {
	s.close()
	m, err := s.deps.Open(l.Model)
	if err != nil {
		return Loaded{}, err
	}
	s.model = m
	s.e, err = engine.Load(ctx, m, engine.Options{Numerics: l.Numerics, Context: l.Context, Knobs: l.Knobs,
		CPUs: l.CPUs, Host: l.Host, Plan: s, Source: s, Observer: &s.seen})
	if err != nil {
		return Loaded{}, err
	}
	if s.b, err = bench.New(s.e); err != nil {
		return Loaded{}, err
	}
	st := s.e.Stats()
	return Loaded{st.Seconds, st.WeightsBytes, st.BytesPerToken, st.MACsPerToken}, nil
}

func (s *server) bench(ctx context.Context, b Bench) (Benched, error) {
	var out Benched
	for range b.Reps {
		sec, err := s.b.Run(ctx, b.Test)
		if err != nil {
			return out, err
		}
		out.Rates = append(out.Rates, float64(b.Test.Tokens())/sec)
	}
	return out, nil
}

func (s *server) lay(ctx context.Context, l Lay) (struct{}, error) {
	for _, layer := range LayersOf(l.Class) {
		if err := s.e.Repack(ctx, layer, l.Class, l.Layout); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
}

// Layout, Choice and Artifact ask the tuner: it plans, the runner executes.
func (s *server) Layout(_ context.Context, c model.Class) (kernel.Layout, error) {
	return ask[kernel.Layout](s, askLayout, c)
}

// Choice also fetches the artifact, which Artifact then has.
func (s *server) Choice(_ context.Context, p kernel.Problem) (kernel.Choice, error) {
	got, err := ask[Planned](s, askChoice, p)
	if err == nil {
		s.artifacts[choiceID(got.Choice)] = &got.Artifact
	}
	return got.Choice, err
}

// Artifact returns what Choice fetched.
func (s *server) Artifact(_ context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	if a := s.artifacts[choiceID(c)]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("no artifact for %s", c.Problem)
}

func choiceID(c kernel.Choice) string { return kernel.KeyDigest(c) }

func ask[Out any](s *server, op string, v any) (Out, error) {
	var out Out
	body, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	if err := wire.Write(s.conn, wire.Message{Ask: &wire.Ask{Op: op, Body: body}}); err != nil {
		return out, err
	}
	var a wire.Answer
	if err := wire.Read(s.conn, &a); err != nil {
		return out, err
	}
	switch {
	case a.Unsupported:
		return out, fmt.Errorf("%w: %s", kernel.ErrUnsupported, a.Error)
	case a.Error != "":
		return out, errors.New(a.Error)
	}
	return out, json.Unmarshal(a.Body, &out)
}
