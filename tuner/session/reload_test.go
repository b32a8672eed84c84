package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/journal"
	"github.com/tilewright/tilewright/tuner/measure"
)

// aside stores a winner of prefill in another layout than the default, before a tune that finds prefill too
// noisy to judge; reloads counts how often that loads the model again.
func (h *fakeHost) aside(t *testing.T, u *tune, reloads *int) {
	h.gain[phaseDecode], h.noise[phasePrefill] = 1.2, 0.6
	h.speed = func(a *kernel.Artifact) float64 { return 1 + float64(a.Key.Config["chunk"]%3)/10 }
	ch := u.variant(t, 512)
	ch.Problem.Layout = broad
	u.stored(t, func(d *cache.Decision) {
		d.Arm.Choices, d.Won = []kernel.Choice{ch}, []kernel.Problem{ch.Problem}
		d.Evidence = []cache.Evidence{{Phase: phaseDecode, Decision: "no winner"}, {Phase: phasePrefill, Decision: "winner"}}
	})
	tell := u.Progress
	u.Progress = func(stage, detail string) {
		if tell(stage, detail); stage == "load again" {
			*reloads++
		}
	}
}

// Loading again in the layouts of a stored winner costs no tune its result, and none its budget.
func TestReloadFitsTheBudget(t *testing.T) {
	seen := map[int]int{}
	for _, load := range []time.Duration{time.Second, 8 * time.Second} {
		for _, budget := range []time.Duration{45 * time.Second, 100 * time.Second, 150 * time.Second} {
			name := fmt.Sprintf("%v to load, %v", load, budget)
			h, reloads := newFakeHost(), 0
			h.load = load
			u, took, err := whole(t, h, budget, func(u *tune) { h.aside(t, u, &reloads) })
			if err != nil || took > budget*105/100 {
				t.Errorf("%s: took %v, %v", name, took, err)
			}
			v := u.verdictOn(phaseDecode)
			if seen[reloads]++; reloads > 1 || reloads == 1 && (v.Why == measure.WhyBudget || u.keeping != phasePrefill) {
				t.Errorf("%s: loaded again %d times, keeping %q, decode: %+v", name, reloads, u.keeping, v)
			}
		}
	}
	if seen[0] == 0 || seen[1] < 2 {
		t.Errorf("lopsided: %v", seen)
	}
}

// A resumed tune loads again what it loaded again before, though prefill is quiet by now, or time short.
func TestResumedTuneReloads(t *testing.T) {
	for _, was := range []string{phasePrefill, ""} {
		h, reloads := newFakeHost(), 0
		u, _, err := whole(t, h, 3*time.Minute, func(u *tune) {
			h.aside(t, u, &reloads)
			if was != "" {
				h.noise[phasePrefill] = 0.005
			}
			var err error
			if u.journal, err = journal.Open(filepath.Join(t.TempDir(), "j"), "s"); err != nil {
				t.Fatal(err)
			}
			u.known()
			u.add("keep", "", was)
		})
		if err != nil || u.keeping != was || (reloads == 1) != (was != "") {
			t.Errorf("was %q: keeping %q, loaded again %d times, %v", was, u.keeping, reloads, err)
		}
		if v := u.verdictOn(phasePrefill); (was == "") != strings.HasPrefix(v.Why, "the A/A noise floor") {
			t.Errorf("was %q: prefill %+v", was, v)
		}
	}
}
