package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// fakeHost is a machine with a clock of its own, on which processes decode and prefill at set rates.
type fakeHost struct {
	mu      sync.Mutex // of now, while searches run
	now     time.Time
	tg, pp  float64            // tok/s of the default
	gain    map[string]float64 // of the tuned arm, by phase: a ratio
	noise   map[string]float64 // lognormal sigma, by phase
	load    time.Duration
	u       *tune // that runs on it
	starts  int
	benches []runner.Bench
	steps   int
	rng     *rand.Rand

	end      time.Time
	cancel   context.CancelCauseFunc
	once     bool                                                  // a broken runner: repetitions are not run
	spoil    func(p *fakeProcess, phase string, rec *wire.Receipt) // of the tuned arm
	luck     float64                                               // of processes with one thread to decode: a ratio
	deaf     bool                                                  // its engine does not honour thread counts
	mute     bool                                                  // its receipts do not count workers
	fail     func(p *fakeProcess, b runner.Bench) error
	reuse    bool                                                  // all processes of an arm are one
	nonce    func(b runner.Bench) string                           // of the receipt, "" for the right one
	calls    func(k kernel.Knobs, b runner.Bench) map[string]int64 // of knob screening
	each     func()                                                // at the end of each job
	blockFor bool                                                  // Bench waits for its context to end
	speed    func(a *kernel.Artifact) float64                      // of a layer's kernel in situ: a ratio; nil for all alike
	flicker  func(at time.Time) float64                            // ln of what the machine is slower at a moment, nil for steady
	warming  map[string]float64                                    // ln by which each job since the last load is faster than the one before, by phase
	since    int                                                   // jobs since then
	job      func(p *fakeProcess) float64                          // ln of what a repetition is slower by, nil for none
	jam      float64                                               // seconds that a step may take longer than its rate says
}

func newFakeHost() *fakeHost {
	return &fakeHost{now: time.Unix(1e9, 0), tg: 100, pp: 1000, load: time.Second, gain: map[string]float64{},
		noise: map[string]float64{phaseDecode: 0.005, phasePrefill: 0.005}, rng: rand.New(rand.NewPCG(3, 4))}
}

// fakeProcess is one process of it.
type fakeProcess struct {
	h     *fakeHost
	tuned bool
	plan  *planner
	id    wire.Receipt
	knobs kernel.Knobs
	pos   int                 // of its context
	ran   map[string][]string // artifacts, by phase
}

// born makes the processes of all hosts differ.
var born atomic.Uint64

func (h *fakeHost) start(_ context.Context, p *planner) (process, error) {
	h.starts++
	id := wire.Receipt{PID: 1<<30 + h.starts, Start: born.Add(1), Exe: "exe"}
	if h.reuse {
		id.PID, id.Start = 1<<30+len(p.override), 1
	}
	return &fakeProcess{h: h, tuned: len(p.override) > 0, plan: p, id: id}, nil
}

func (p *fakeProcess) Load(ctx context.Context, l runner.Load) (runner.Loaded, error) {
	p.h.pass(p.h.load.Seconds())
	p.h.since = 0
	p.knobs, p.ran = l.Knobs, map[string][]string{}
	return runner.Loaded{Seconds: p.h.load.Seconds()}, errors.Join(p.ask(ctx), ctx.Err())
}

// ask asks for all that an engine executes, as it does while it loads.
func (p *fakeProcess) ask(ctx context.Context) error {
	if p.h.u == nil {
		return nil
	}
	for _, c := range p.h.u.classes {
		l, err := p.plan.Layout(ctx, c)
		if err != nil {
			return err
		}
		for _, m := range kernel.MPoints {
			if covers(c, m) {
				if _, err := p.plan.Choice(ctx, c.Problem(model.W4A8, m, l)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *fakeProcess) Bench(ctx context.Context, b runner.Bench, rec *wire.Receipt) (runner.Benched, error) {
	h := p.h
	if h.blockFor {
		<-ctx.Done()
		return runner.Benched{}, ctx.Err()
	}
	if h.fail != nil {
		if err := h.fail(p, b); err != nil {
			return runner.Benched{}, err
		}
	}
	h.benches = append(h.benches, b)
	phase, rate := phasePrefill, h.pp
	if b.Test.Gen > 0 {
		phase, rate = phaseDecode, h.tg
	}
	if g := h.gain[phase]; p.tuned && g > 0 {
		rate *= g
	}
	if h.luck > 0 && phase == phaseDecode && p.knobs.ThreadsDecode == 1 {
		rate *= h.luck
	}
	rate *= math.Exp(h.warming[phase] * float64(h.since))
	h.since++
	h.pass(float64(max(0, b.Test.Depth-p.pos)) / h.pp)
	p.pos = b.Test.Context()
	var out runner.Benched
	for range b.Reps {
		r := rate * math.Exp(h.noise[phase]*h.rng.NormFloat64())
		if h.job != nil {
			r *= math.Exp(-h.job(p))
		}
		r = h.work(float64(b.Test.Tokens()), r)
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
		switch {
		case h.mute:
		case h.deaf:
			rec.Workers = &wire.Workers{Decode: 2, Prefill: 2}
		default: // decode after a prompt, at its depth
			rec.Workers = &wire.Workers{Decode: p.knobs.ThreadsDecode, Prefill: p.knobs.ThreadsPrefill}
		}
		if h.nonce != nil && h.nonce(b) != "" {
			rec.Nonce = h.nonce(b)
		}
		rec.Calls = map[string]int64{}
		for _, d := range p.runs(ctx, phase) {
			rec.Calls[d] = 1
		}
		if h.calls != nil {
			rec.Calls = h.calls(p.knobs, b)
		}
		if h.spoil != nil && p.tuned {
			h.spoil(p, phase, rec)
		}
	}
	return out, nil
}

// pass lets time pass, but not beyond the end: what runs then is cancelled.
func (h *fakeHost) pass(seconds float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(time.Duration(seconds * 1e9))
	if h.cancel != nil && h.now.After(h.end) {
		h.now = h.end
		h.cancel(errBudget)
	}
}

// work does tokens at a rate, as the machine permits while it goes on, and returns the rate that came of it.
func (h *fakeHost) work(tokens, rate float64) float64 {
	if h.flicker == nil {
		h.pass(tokens / rate)
		return rate
	}
	const slice = 16
	sum := 0.0
	for done := 0.0; done < tokens; done += slice {
		sec := min(slice, tokens-done) / rate * math.Exp(h.flicker(h.clock()))
		h.pass(sec)
		sum += sec
	}
	return tokens / sum
}

// newFlicker is noise of the same size on every scale of time from a tenth of a second to minutes.
func newFlicker(size float64, seed uint64) func(time.Time) float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	var phase [12]float64
	for i := range phase {
		phase[i] = 2 * math.Pi * rng.Float64()
	}
	return func(at time.Time) (x float64) {
		s := float64(at.UnixNano()%1e15) / 1e9
		for i, p := range phase {
			x += size * math.Sin(2*math.Pi*s/(0.11*math.Pow(1.93, float64(i)))+p)
		}
		return x
	}
}

func (h *fakeHost) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// defaults are the artifacts of the default arm in a phase.
func (h *fakeHost) defaults(phase string) []string {
	return artifacts(measure.Arm{Evidence: h.u.evidence(context.Background(), phase, nil, h.u.Knobs)})
}

// runs are the artifacts of the process's arm in a phase.
func (p *fakeProcess) runs(ctx context.Context, phase string) []string {
	if u := p.h.u; p.ran[phase] == nil && p.ran != nil && u != nil {
		var over []kernel.Choice
		if p.tuned {
			over = u.finalists()
		}
		p.ran[phase] = artifacts(measure.Arm{Evidence: u.evidence(context.WithoutCancel(ctx), phase, over, p.knobs)})
	}
	return p.ran[phase]
}

// onFake moves a tune to a made-up machine, with a composed arm that differs at the tuning points, and
// a budget from now on.
func onFake(t *testing.T, h *fakeHost, budget time.Duration, points ...int) *tune {
	u := testTune(t)
	h.take(t, u, budget, points...)
	return u
}

// take moves a tune to the machine.
func (h *fakeHost) take(t *testing.T, u *tune, budget time.Duration, points ...int) {
	u.lab.now, u.lab.start = h.clock, h.start
	h.u, u.Budget, u.deadline = u, budget, h.now.Add(budget)
	u.Prefill, u.asked[phasePrefill] = true, true
	u.ppRate, u.tgRate = h.pp, h.tg
	u.lab.loaded.Seconds = h.load.Seconds()
	u.res.Floors[phasePrefill] = measure.Floor{Noise: 0.005, Level: measure.Normal}
	for _, m := range points {
		u.best[pointID{u.classes[0].Key(), m}] = screened{u.variant(t, m), 0.2}
	}
}
