package session

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// fakeHost is a machine with a clock of its own, on which processes decode and prefill at set rates.
type fakeHost struct {
	now     time.Time
	tg, pp  float64            // tok/s of the default
	gain    map[string]float64 // of the tuned arm, by phase: a ratio
	noise   map[string]float64 // lognormal sigma, by phase
	load    time.Duration
	ran     map[string][]string // artifacts, by phase and arm
	starts  int
	benches []runner.Bench
	rng     *rand.Rand

	end      time.Time
	cancel   context.CancelCauseFunc
	once     bool                                                  // a broken runner: repetitions are not run
	nonce    func(b runner.Bench) string                           // of the receipt, "" for the right one
	calls    func(k kernel.Knobs, b runner.Bench) map[string]int64 // of knob screening
	each     func()                                                // at the end of each job
	blockFor bool                                                  // Bench waits for its context to end
}

func newFakeHost() *fakeHost {
	return &fakeHost{now: time.Unix(1e9, 0), tg: 100, pp: 1000, load: time.Second, gain: map[string]float64{},
		noise: map[string]float64{phaseDecode: 0.005, phasePrefill: 0.005}, ran: map[string][]string{}, rng: rand.New(rand.NewPCG(3, 4))}
}

// fakeProcess is one process of it.
type fakeProcess struct {
	h     *fakeHost
	tuned bool
	id    wire.Receipt
	knobs kernel.Knobs
	pos   int // of its context
}

// born makes the processes of all hosts differ.
var born atomic.Uint64

func (h *fakeHost) start(_ context.Context, p *planner) (process, error) {
	h.starts++
	return &fakeProcess{h: h, tuned: len(p.override) > 0, id: wire.Receipt{PID: 1<<30 + h.starts, Start: born.Add(1), Exe: "exe"}}, nil
}

func (p *fakeProcess) Load(_ context.Context, l runner.Load) (runner.Loaded, error) {
	p.h.now = p.h.now.Add(p.h.load)
	p.knobs = l.Knobs
	return runner.Loaded{Seconds: p.h.load.Seconds()}, nil
}

func (p *fakeProcess) Bench(ctx context.Context, b runner.Bench, rec *wire.Receipt) (runner.Benched, error) {
	h := p.h
	if h.blockFor {
		<-ctx.Done()
		return runner.Benched{}, ctx.Err()
	}
	h.benches = append(h.benches, b)
	phase, rate := phasePrefill, h.pp
	if b.Test.Gen > 0 {
		phase, rate = phaseDecode, h.tg
	}
	if g := h.gain[phase]; p.tuned && g > 0 {
		rate *= g
	}
	h.pass(float64(max(0, b.Test.Depth-p.pos)) / h.pp)
	p.pos = b.Test.Context()
	var out runner.Benched
	for range b.Reps {
		r := rate * math.Exp(h.noise[phase]*h.rng.NormFloat64())
		h.pass(float64(b.Test.Tokens()) / r)
		out.Rates = append(out.Rates, r)
		if h.once {
			break
		}
	}
	if h.each != nil {
		h.each()
	}
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	p.id.Nonce = fmt.Sprint(len(h.benches))
	if rec != nil {
		*rec = p.id
		if h.nonce != nil && h.nonce(b) != "" {
			rec.Nonce = h.nonce(b)
		}
		rec.Calls = map[string]int64{}
		for _, d := range h.ran[fmt.Sprint(phase, p.tuned)] {
			rec.Calls[d] = 1
		}
		if h.calls != nil {
			rec.Calls = h.calls(p.knobs, b)
		}
	}
	return out, nil
}

// pass lets time pass, but not beyond the end: what runs then is cancelled.
func (h *fakeHost) pass(seconds float64) {
	h.now = h.now.Add(time.Duration(seconds * 1e9))
	if h.cancel != nil && h.now.After(h.end) {
		h.now = h.end
		h.cancel(errBudget)
	}
}

func (p *fakeProcess) SetKnobs(_ context.Context, k kernel.Knobs) error   { p.knobs = k; return nil }
func (p *fakeProcess) Pack(context.Context, runner.Pack) (float64, error) { return 0.01, nil }
func (p *fakeProcess) Expected() wire.Receipt                             { return p.id }
func (p *fakeProcess) Close()                                             {}

// onFake moves a tune to a made-up machine, with a composed arm that differs at the tuning points, and
// a budget from now on.
func onFake(t *testing.T, h *fakeHost, budget time.Duration, points ...int) *tune {
	u := testTune(t)
	h.take(t, u, budget, points...)
	return u
}

// take moves a tune to the machine.
func (h *fakeHost) take(t *testing.T, u *tune, budget time.Duration, points ...int) {
	u.now, u.start = func() time.Time { return h.now }, h.start
	u.deadline = h.now.Add(budget)
	u.Prefill, u.asked[phasePrefill] = true, true
	u.ppRate, u.tgRate = h.pp, h.tg
	u.lab.loaded.Seconds = h.load.Seconds()
	u.res.Floors[phasePrefill] = measure.Floor{Noise: 0.005, Level: measure.Normal}
	for _, m := range points {
		u.best[pointID{u.classes[0].Key(), m}] = screened{Choice: u.variant(t, m), Gain: 0.2}
	}
	for _, phase := range []string{phaseDecode, phasePrefill} {
		h.ran[fmt.Sprint(phase, false)] = artifacts(measure.Arm{Evidence: u.evidence(t.Context(), phase, nil, u.Knobs)})
		h.ran[fmt.Sprint(phase, true)] = artifacts(measure.Arm{Evidence: u.evidence(t.Context(), phase, u.finalists(), u.knobs)})
	}
}
