package session

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// The five retractions once more (see package measure), on the way that a real tune goes: from what
// processes say to the verdict on an arm.

// Arm order drift: on a machine that gets faster from job to job the arm that has
// its turn later looks better. Turns change places within a pair, and pairs from one to the next, which is
// all there is where a pass is long.
func TestOrderOfTurnsCancels(t *testing.T) {
	for _, pp := range []float64{2000, 100} {
		orderOfTurns(t, pp)
	}
}

func orderOfTurns(t *testing.T, pp float64) {
	h := newFakeHost()
	h.pp = pp
	h.noise[phaseDecode], h.noise[phasePrefill], h.warming = 1e-4, 1e-4, map[string]float64{phaseDecode: 0.002, phasePrefill: 0.03}
	u := onFake(t, h, 20*time.Minute, 1, 512)
	if many := u.ppTurns() > 1; many != (pp > 1000) {
		t.Fatalf("%d turns at %v tok/s", u.ppTurns(), pp)
	}
	c, err := u.confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range c.phases() {
		gains := g.judge.Gains(g.metric.Name, armTuned, armDefault)
		if g.Decision == measure.Winner || len(gains) < firstLook || math.Abs(g.Ratio.Median-1) > 0.02 {
			t.Errorf("%s: %+v", g.phase, g.Verdict)
		}
		for pair, x := range gains {
			later := pair%2 == 0 // the tuned arm has the second turn
			single := g.phase == phasePrefill && u.ppTurns() == 1
			if g.phase == phaseDecode && math.Abs(x) > 0.0005 || !single && math.Abs(x) > 0.002 || single && (math.Abs(x) < 0.02 || (x > 0) != later) {
				t.Errorf("%s at %v tok/s, pair %d: %.4f", g.phase, pp, pair, x)
			}
		}
	}
}

// The same in the noise floor: the run that comes first changes from pair to pair.
func TestFloorRunsChangePlaces(t *testing.T) {
	for _, turns := range []int{1, 3} {
		rates := make([]float64, 2*turns)
		for i := range rates {
			rates[i] = 100 + float64(i)
		}
		a, b := aaPair(measure.PrefillRate, rates, 0), aaPair(measure.PrefillRate, rates, 1)
		if math.Abs(a+b) > 1e-12 || turns == 1 && a == 0 {
			t.Errorf("%d turns: %v, then %v", turns, a, b)
		}
	}
}

// The build is not what it says, or another process is measured: samples whose receipt shows other kernels
// than the arm's, kernels of the other arm beside them, or another process count for nothing, however fast.
func TestReceiptsDecide(t *testing.T) {
	for name, spoil := range map[string]func(p *fakeProcess, phase string, rec *wire.Receipt){
		"ran the default's kernels": func(p *fakeProcess, phase string, rec *wire.Receipt) {
			rec.Calls = map[string]int64{}
			for _, d := range p.h.defaults(phase) {
				rec.Calls[d] = 1
			}
		},
		"ran the default's kernels too": func(p *fakeProcess, phase string, rec *wire.Receipt) {
			for _, d := range p.h.defaults(phase) {
				rec.Calls[d] = 1
			}
		},
		"ran nothing":           func(_ *fakeProcess, _ string, rec *wire.Receipt) { rec.Calls = nil },
		"another process":       func(_ *fakeProcess, _ string, rec *wire.Receipt) { rec.PID++ },
		"a pid that was reused": func(_ *fakeProcess, _ string, rec *wire.Receipt) { rec.Start++ },
		"another executable":    func(_ *fakeProcess, _ string, rec *wire.Receipt) { rec.Exe = "other" },
		"another job":           func(_ *fakeProcess, _ string, rec *wire.Receipt) { rec.Nonce = "other" },
	} {
		h := newFakeHost()
		h.gain[phaseDecode], h.spoil = 1.5, spoil
		u := onFake(t, h, 10*time.Minute, 1)
		c, err := u.confirm(t.Context())
		if err != nil && !errors.Is(err, measure.ErrVoid) { // what was planted in the process is missed too
			t.Fatal(err)
		}
		if n := len(c.decode.judge.Values(measure.DecodeRate.Name, armTuned)); c.decode.Decision == measure.Winner || n > 0 || len(c.decode.judge.Rejections()) == 0 {
			t.Errorf("%s: %d values counted, %+v", name, n, c.decode.Verdict)
		}
	}
}

// A process that served a pair before is not fresh: it carries its state along.
func TestUsedProcessesDoNotConfirm(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode], h.reuse = 1.5, true
	u := onFake(t, h, 10*time.Minute, 1)
	c, err := u.confirm(t.Context())
	if err != nil && !errors.Is(err, measure.ErrVoid) {
		t.Fatal(err)
	}
	if c.decode.Decision == measure.Winner || c.decode.Verdict.Pairs > 1 {
		t.Errorf("%+v", c.decode.Verdict)
	}
}

// The knob is not connected: an arm of another number of threads is inert where its receipts show the same
// workers as the default's, however much faster it looks, and wins where they show that it acts. Receipts
// that do not count workers, as those of other builds, show nothing against it. Its race says the same.
func TestKnobsThatDoNotActAreInert(t *testing.T) {
	for name, c := range map[string]struct{ deaf, mute bool }{"deaf": {true, false}, "acts": {}, "not counted": {false, true}} {
		h := newFakeHost()
		h.deaf, h.mute, h.luck = c.deaf, c.mute, 1.3
		u := onFake(t, h, 10*time.Minute)
		u.knobs.ThreadsDecode = 1
		got, err := u.confirm(t.Context())
		if err != nil && !errors.Is(err, measure.ErrVoid) {
			t.Fatal(err)
		}
		if won := got.decode.Decision == measure.Winner; won == c.deaf || c.deaf != (u.verdictOn(phaseDecode).Why == measure.WhyInert) {
			t.Errorf("%s: %+v", name, got.decode.Verdict)
		}
		p, _ := h.start(t.Context(), u.lab.plan)
		s := &knobSource{t: u, ctx: t.Context(), r: p, k: knobs[0], until: h.now.Add(time.Minute)}
		if _, inert, err := s.acting(2, []int{1}); err != nil || c.deaf != (len(inert) == 1) {
			t.Errorf("%s: its race finds %v inert, %v", name, inert, err)
		}
	}
}

// One surviving pass: an arm that crashes wins nothing with the pairs that are left, and its crashes are
// on record; pairs without it are not counted as kept.
func TestCrashesOfAnArmCount(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode] = 1.5
	crashes := 0
	h.fail = func(p *fakeProcess, b runner.Bench) error {
		if p.tuned && h.starts > 2 && h.starts < 7 && b.Test.Gen > 0 {
			crashes++
			return &runner.Crash{Reason: "SIGILL", Stderr: "illegal instruction"}
		}
		return nil
	}
	u := onFake(t, h, 10*time.Minute, 1)
	c, err := u.confirm(t.Context())
	if err != nil && !errors.Is(err, measure.ErrVoid) {
		t.Fatal(err)
	}
	f := c.decode.judge.Failures()
	if c.decode.Decision == measure.Winner || c.decode.Why != measure.WhyFailed || crashes != 2 || len(f) != crashes || !strings.Contains(f[0].String(), "SIGILL") {
		t.Errorf("%+v, %d crashes, %v", c.decode.Verdict, crashes, f)
	}
	b := u.res.Blocks[len(u.res.Blocks)-1]
	if b.Of-b.Kept != crashes || !strings.Contains(b.Why, "SIGILL") {
		t.Errorf("%+v", b)
	}
}

// A real runner's receipt shows how many workers a phase ran on, also where they park between regions, and
// thus use little CPU time.
func TestReceiptsCountWorkers(t *testing.T) {
	u := tinyTune(t, func(o *Options) {
		o.CPUs = []int{o.CPUs[0], o.CPUs[0]} // as on a machine with one CPU
		o.Knobs.SpinMicros, o.Knobs.ThreadsDecode, o.Knobs.ThreadsPrefill = 0, 2, 2
	})
	r, err := u.lab.runner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n > 0; n-- {
		k := u.Knobs
		k.ThreadsDecode = n
		var rec wire.Receipt
		if err := r.SetKnobs(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		_, err := r.Bench(t.Context(), runner.Bench{Test: bench.Test{Gen: 4}, Reps: 1}, &rec)
		if err != nil || rec.Workers == nil || rec.Workers.Decode != n {
			t.Errorf("%+v, want %d: %v", rec.Workers, n, err)
		}
	}
}
