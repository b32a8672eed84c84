package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/journal"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// The budget holds on hosts of every speed: what cannot be finished is not started, and a host too slow
// for a floor is told so instead of being kept busy.
func TestBudgetOnSlowHosts(t *testing.T) {
	for _, budget := range []time.Duration{10 * time.Second, 20 * time.Second, 60 * time.Second, 240 * time.Second} {
		for _, tg := range []float64{0.2, 1, 5, 20, 200} {
			h := newFakeHost()
			h.tg, h.pp, h.gain[phaseDecode] = tg, 4*tg, 1.1
			u := onFake(t, h, budget, 1, 512)
			began := h.now
			ctx, cancel := context.WithCancelCause(t.Context())
			h.end, h.cancel = u.deadline.Add(-reserve/2), cancel
			p, _ := h.start(ctx, u.lab.plan)
			if _, err := p.Load(ctx, u.lab.load); err != nil {
				t.Fatal(err)
			}
			err := u.floor(ctx, p)
			if err == nil {
				_, err = u.confirm(ctx)
			}
			cancel(nil)
			if err != nil && !errors.Is(err, errBudget) {
				t.Errorf("%v at %g tok/s: %v", budget, tg, err)
			}
			if took := h.now.Sub(began); took > budget*105/100 {
				t.Errorf("%v at %g tok/s took %v", budget, tg, took)
			}
			if tg == 200 && budget > time.Minute && (err != nil || len(u.res.Floors) != 2 || u.res.Verdicts[0].Decision != "winner") {
				t.Errorf("a fast host has no result: %v %+v", err, u.res.Verdicts)
			}
		}
	}
}

// Each phase answers for its own noise: a phase that cannot be judged is set aside with its reason, and
// only when none can is the tune refused.
func TestFloorsByPhase(t *testing.T) {
	for name, c := range map[string]struct {
		decode, prefill float64 // noise
		busy            bool
		want            error
		aside           string
	}{
		"quiet":       {0.005, 0.005, false, nil, "[]"},
		"decode":      {0.6, 0.005, false, nil, "[decode]"},
		"prefill":     {0.005, 0.6, false, nil, "[prefill]"},
		"both":        {0.6, 0.6, false, ErrFloor, "[decode prefill]"},
		"both, still": {0.6, 0.6, true, nil, "[]"},
	} {
		h := newFakeHost()
		h.noise[phaseDecode], h.noise[phasePrefill] = c.decode, c.prefill
		h.gain[phaseDecode], h.gain[phasePrefill] = 1.2, 1.2
		u := onFake(t, h, 10*time.Minute, 1, 512)
		u.AllowBusy = c.busy
		p, _ := h.start(t.Context(), u.lab.plan)
		err := u.floor(t.Context(), p)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		aside := []string{}
		for _, phase := range []string{phaseDecode, phasePrefill} {
			if u.aside[phase] != "" {
				aside = append(aside, phase)
			}
		}
		if fmt.Sprint(aside) != c.aside || u.res.Floor != u.res.Floors[phaseDecode] {
			t.Errorf("%s: set aside %v, floor %+v", name, u.aside, u.res.Floor)
		}
		if err != nil {
			continue
		}
		if _, err := u.confirm(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, v := range u.res.Verdicts {
			if noisy := u.res.Floors[v.Phase].Level == measure.Refused; noisy != (v.Decision != "winner") || noisy && !strings.Contains(v.Why, "noise floor") && !strings.Contains(v.Why, "A/A") {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

// A value of a knob that leaves no trace is inert and not raced.
func TestInertKnobsAreNotRaced(t *testing.T) {
	h := newFakeHost()
	h.calls = func(k kernel.Knobs, b runner.Bench) map[string]int64 {
		// Panels from 33 and from 65 rows run the same kernels on 96 rows; the chunk changes nothing.
		if b.Test.Prompt == 96 && k.PanelMinM <= 96 {
			return map[string]int64{"panel": 1}
		}
		return map[string]int64{"plain": int64(k.ThreadsDecode), "x": int64(k.ThreadsPrefill)}
	}
	u := onFake(t, h, 10*time.Minute)
	u.best, u.Ref.Path = map[pointID]screened{}, "model.gguf"
	p, _ := h.start(t.Context(), u.lab.plan)
	if err := u.raceKnobs(t.Context(), p, h.now.Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := map[string]Verdict{}
	for _, v := range u.res.Verdicts {
		got[strings.TrimPrefix(v.Problem, "knob ")] = v
	}
	if v := got["prefill_chunk"]; v.Why != measure.WhyInert {
		t.Errorf("%+v", v)
	}
	if v := got["panel_min_m"]; !strings.Contains(v.Why, "inert: [65]") {
		t.Errorf("%+v", v)
	}
	if v := got["threads_decode"]; strings.Contains(v.Why, "inert") {
		t.Errorf("%+v", v)
	}
	chunks := 0
	for _, b := range h.benches {
		if b.Test.Prompt == 512 {
			chunks++
		}
	}
	if chunks != 2 {
		t.Errorf("the inert chunk ran %d times, 2 show what it is", chunks)
	}
	if u.knobs != u.Knobs {
		t.Errorf("equal values made %+v", u.knobs)
	}
}

// A race of a knob that a kill cut short goes on where it was: the blocks that were measured count.
func TestKnobRaceResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	race := func(stopAfter int) (*fakeHost, *tune, error) {
		h := newFakeHost()
		h.calls = func(k kernel.Knobs, b runner.Bench) map[string]int64 {
			return map[string]int64{"x": int64(k.ThreadsDecode)}
		}
		u := onFake(t, h, 10*time.Minute)
		u.Prefill = false
		var err error
		if u.journal, err = journal.Open(path, "s"); err != nil {
			t.Fatal(err)
		}
		defer u.closeJournal()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h.each = func() {
			if len(h.benches) == stopAfter {
				cancel()
			}
		}
		p, _ := h.start(ctx, u.lab.plan)
		return h, u, u.raceKnobs(ctx, p, h.now.Add(5*time.Minute))
	}
	const cut = 10
	whole, _, err := race(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := race(cut); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	rest, u, err := race(0)
	if err != nil || len(u.res.Verdicts) == 0 {
		t.Fatal(err, u.res.Verdicts)
	}
	if lost := cut + len(rest.benches) - len(whole.benches); lost < 0 || lost > 2 {
		t.Errorf("%d benches in one go; %d before the kill and %d after it", len(whole.benches), cut, len(rest.benches))
	}
}

// Where there is no time for passes as long as the confirmation's, the floor is that of up to twice as
// many pairs; where there is, of as many.
func TestShortPassesOfPrefill(t *testing.T) {
	for _, c := range []struct {
		pp     float64
		budget time.Duration
		want   int
	}{{100, 100 * time.Second, 2 * plannedPairs}, {220, 130 * time.Second, 2 * plannedPairs}, {5000, 200 * time.Second, plannedPairs}} {
		h := newFakeHost()
		h.pp = c.pp
		u := onFake(t, h, c.budget, 1, 512)
		p, ok := u.prefillPair()
		if !ok || p.planned != c.want {
			t.Errorf("at %g tok/s: %d turns of %d tokens stand for %d pairs (%t), want %d", c.pp, p.turns, p.test.Prompt, p.planned, ok, c.want)
		}
	}
}
