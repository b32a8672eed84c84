package session

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
)

// whole runs a whole tune on a made-up machine, from loading to publishing, and returns how long it took
// there. What the deadline overtakes is cancelled, as in a real one.
func whole(t *testing.T, h *fakeHost, budget time.Duration, change func(*tune)) (*tune, time.Duration, error) {
	t.Helper()
	u := onFake(t, h, budget)
	clear(u.res.Floors)
	if change != nil {
		change(u)
	}
	began := h.now
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	h.end, h.cancel = u.deadline.Add(-reserve/2), cancel
	c, err := u.measure(ctx)
	h.cancel = nil // what is left needs no machine
	return u, h.now.Sub(began), u.conclude(t.Context(), c, err)
}

// The budget holds within 5%, whatever the speed of the host and however much longer than its rate promised
// a step may take; all of a tune is run, from loading to publishing. A host that is fast enough has a
// result; one that is too slow for its budget is told so before its noise is measured.
func TestBudgetHolds(t *testing.T) {
	seen := map[bool]int{}
	for _, budget := range []time.Duration{10 * time.Second, 30 * time.Second, 60 * time.Second, 100 * time.Second} {
		for _, tg := range []float64{0.2, 4, 20, 60} {
			for _, jam := range []float64{0.05, 1} {
				h := newFakeHost()
				h.tg, h.pp, h.gain[phaseDecode], h.gain[phasePrefill], h.jam = tg, 10*tg, 1.1, 1.2, jam
				h.speed = func(a *kernel.Artifact) float64 { return 1 + float64(a.Key.Config["chunk"]%3)/10 }
				name := fmt.Sprintf("%v at %g tok/s, steps late by up to %g s", budget, tg, jam)
				u, took, err := whole(t, h, budget, nil)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if took > budget*105/100 {
					t.Errorf("%s took %v", name, took)
				}
				glance := time.Duration((16/h.pp + 1/h.tg) * 1e9) // without it nothing is known
				three := time.Duration(3 * 1.1 * 2 * (1.5 + 576/h.pp + 128/h.tg) * 1e9)
				judged := u.verdictOn(phaseDecode).Why != measure.WhyBudget
				seen[judged]++
				switch {
				case !judged && three < budget/2:
					t.Errorf("%s: no result, where three pairs take %v", name, three)
				case three > budget && (judged || len(u.res.Floors) > 0 || took > h.load+glance+budget/5):
					t.Errorf("%s: %v and %d floors until it was told that three pairs take %v", name, took, len(u.res.Floors), three)
				}
			}
		}
	}
	if seen[true] < 4 || seen[false] < 4 {
		t.Errorf("%d with a result, %d without: the cases are lopsided", seen[true], seen[false])
	}
}

// verdictOn is the verdict on the whole of a phase.
func (t *tune) verdictOn(phase string) Verdict {
	for _, v := range t.res.Verdicts {
		if v.Phase == phase && v.Problem == "whole" {
			return v
		}
	}
	return Verdict{}
}
