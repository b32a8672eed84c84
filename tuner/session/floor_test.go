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
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/journal"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

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

// The floor is not lower than the noise that pairs of the confirmation show of the same arm, also where
// passes are short and the noise is no whiter than that of real machines, alike on every scale of time.
func TestFloorIsHonest(t *testing.T) {
	for _, c := range []struct {
		budget time.Duration
		pp, tg float64
	}{{90 * time.Second, 600, 60}, {240 * time.Second, 200, 40}, {10 * time.Minute, 1000, 100}} {
		share := map[string][]float64{}
		for seed := range uint64(24) {
			h := newFakeHost()
			h.pp, h.tg, h.flicker = c.pp, c.tg, newFlicker(0.03, seed)
			u := onFake(t, h, c.budget)
			p, _ := h.start(t.Context(), u.lab.plan)
			if err := u.floor(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			conf, err := u.newConfirmation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b := contest{decode: true, prefill: true, planners: [2]*planner{u.lab.plan, u.lab.plan}, knobs: [2]kernel.Knobs{u.Knobs, u.Knobs}}
			for pair, order := range stat.ABBA(16) {
				d, err := u.duel(t.Context(), pair, order, b)
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range conf.phases() {
					u.hand(g, pair, d)
				}
			}
			for _, g := range conf.phases() {
				real := stat.NoiseFloor(g.judge.Gains(g.metric.Name, armTuned, armDefault), plannedPairs, 1)
				share[g.phase] = append(share[g.phase], u.res.Floors[g.phase].Noise/real)
			}
		}
		for phase, s := range share {
			m := stat.Median(s)
			t.Logf("%v %s %.2f", c.budget, phase, m)
			if !(m > 0.85) {
				t.Errorf("%v at %g tok/s: the floor of %s is %.2f of what pairs of the confirmation show (%.2f)", c.budget, c.pp, phase, m, s)
			}
		}
	}
}

// Pairs of the floor that something disturbed are dropped and counted, whatever they say.
func TestDisturbedPairsOfTheFloor(t *testing.T) {
	h := newFakeHost()
	u := onFake(t, h, 10*time.Minute, 1, 512)
	blocks = 0
	u.Watch = disturbing{func(n int) bool { return n%2 == 0 }}
	p, _ := h.start(t.Context(), u.lab.plan)
	if err := u.floor(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for phase, f := range u.res.Floors {
		if f.Dropped < f.Kept-1 || f.Dropped == 0 || f.Kept < stat.MinPairs {
			t.Errorf("%s: kept %d, dropped %d", phase, f.Kept, f.Dropped)
		}
	}
}
