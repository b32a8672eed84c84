package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
)

// publish keeps each phase's own: winners that were confirmed, winners stored before where this tune
// has no result, the default elsewhere.
func TestPublish(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode] = 1.1
	u := onFake(t, h, 10*time.Minute, 1)
	stored := u.variant(t, 512)
	key, err := u.Target.DecisionKey()
	if err != nil {
		t.Fatal(err)
	}
	k := u.Knobs
	k.ThreadsPrefill, k.ThreadsDecode = 1, 1
	old := cache.Decision{Key: key, Arm: kernel.Arm{Knobs: k, Choices: []kernel.Choice{stored}},
		Evidence: []cache.Evidence{{Phase: phasePrefill, Decision: "winner", Why: "before"}}}
	if err := u.Store.PutDecision(old); err != nil {
		t.Fatal(err)
	}
	c, err := u.confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.lab.plan.Choice(t.Context(), stored.Problem); err != nil {
		t.Fatal(err)
	}
	if err := u.publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d, look := u.Store.Decision(key)
	if look.Status != cache.Exact || len(d.Evidence) != 2 || d.Evidence[0].Decision != "winner" || d.Evidence[1].Why != "before" {
		t.Fatalf("%v %+v", look, d.Evidence)
	}
	for _, want := range []kernel.Choice{u.variant(t, 1), stored} {
		if got, ok := d.Arm.Find(want.Problem); !ok || got.Config.String() != want.Config.String() {
			t.Errorf("%s: %v", want.Problem, got.Config)
		}
	}
	if d.Arm.Knobs.ThreadsPrefill != 1 || d.Arm.Knobs.ThreadsDecode != u.Knobs.ThreadsDecode {
		t.Errorf("%+v", d.Arm.Knobs)
	}
}

// Who allows a busy machine gets labelled results: a winner runs, and the next tune checks it first. What
// nobody could judge for noise is not stored as a default that was kept (TileOPs#772).
func TestBusyMachineIsLabelled(t *testing.T) {
	for name, c := range map[string]struct {
		noise float64
		busy  bool
		want  cache.Status
	}{"quiet": {0.005, false, cache.Exact}, "allowed": {0.005, true, cache.Revalidate}, "noisy": {0.6, true, cache.Miss}} {
		h := newFakeHost()
		h.noise[phaseDecode], h.noise[phasePrefill] = c.noise, c.noise
		h.gain[phaseDecode], h.gain[phasePrefill] = 1.2, 1.2
		u := onFake(t, h, 10*time.Minute, 1, 512)
		u.AllowBusy = c.busy
		p, _ := h.start(t.Context(), u.lab.plan)
		if err := u.floor(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		found, err := u.confirm(t.Context())
		if err := u.conclude(t.Context(), found, err); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		key, err := u.Target.DecisionKey()
		if err != nil {
			t.Fatal(err)
		}
		d, look := u.Store.Decision(key)
		if look.Status != c.want || look.Fits(d) != (c.want != cache.Miss) || c.want == cache.Revalidate != strings.Contains(look.Why, "--allow-busy") {
			t.Errorf("%s: %+v, %+v", name, look, d.Evidence)
		}
	}
}

// Publishing asks no backend for layouts, which would take its time after the deadline, and where backends
// fail then, what won is what was found to differ all the same.
func TestPublishAsksForNoLayouts(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode] = 1.1
	u := tinyTune(t, onPortable)
	h.take(t, u, 10*time.Minute, 1)
	load(t, u, u.Knobs, u.lab.plan)
	c, err := u.confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	u.Suite.Backends["generic"] = noLayouts{u.Suite.Backends["generic"], &asked}
	if err := u.conclude(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	key, err := u.Target.DecisionKey()
	if err != nil {
		t.Fatal(err)
	}
	d, _ := u.Store.Decision(key)
	if want := []kernel.Problem{u.variant(t, 1).Problem}; asked > 0 || !slices.Equal(d.Won, want) {
		t.Errorf("asked %d times; won %v, want %v", asked, d.Won, want)
	}
	clear(u.lab.plan.made.layouts)
	if won := u.winners(t.Context(), d.Arm); asked > 0 || !slices.Equal(won, d.Won) {
		t.Errorf("layouts unknown: asked %d times; won %v, want %v", asked, won, d.Won)
	}
}

// noLayouts is a backend that fails when it is asked for layouts.
type noLayouts struct {
	kernel.Backend
	asked *int
}

func (b noLayouts) Layouts(context.Context, kernel.Features, kernel.Format) ([]kernel.Layout, error) {
	*b.asked++
	return nil, errors.New("stalled")
}

// A tune for one phase under a hint (another kernel, another build) leaves the stored winner of the other
// phase, marked to be checked, if today's backends still make it; an import is nobody's winner yet.
func TestPublishOverAHint(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*cache.Decision)
		stays  bool
	}{
		"another kernel": {func(d *cache.Decision) { d.Key.Host.Kernel = "old" }, true},
		"marked":         {func(d *cache.Decision) { d.Mark("slow") }, true},
		"imported":       {func(d *cache.Decision) { d.Imported = true }, false},
		"removed": {func(d *cache.Decision) {
			d.Key.Sources.Engine = "old"
			for i := range d.Arm.Choices {
				d.Arm.Choices[i].Backend = "removed"
			}
		}, false},
	} {
		h := newFakeHost()
		h.gain[phaseDecode] = 1.1
		u := onFake(t, h, 10*time.Minute, 1)
		u.Prefill, u.asked[phasePrefill] = false, false
		old := u.variant(t, 512)
		u.stored(t, func(d *cache.Decision) {
			d.Arm.Choices = []kernel.Choice{old}
			d.Arm.Knobs.ThreadsPrefill, d.Arm.Knobs.ThreadsDecode = 1, 1
			d.Evidence[1].Why = "before"
			x.change(d)
		})
		if _, err := u.lab.plan.Choice(t.Context(), old.Problem); err != nil {
			t.Fatal(err)
		}
		c, err := u.confirm(t.Context())
		if err == nil {
			err = u.publish(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
		key, err := u.Target.DecisionKey()
		if err != nil {
			t.Fatal(err)
		}
		d, look := u.Store.Decision(key)
		got, _ := d.Arm.Find(old.Problem)
		if stays := got.Config.String() == old.Config.String(); stays != x.stays || d.Stale != x.stays || (d.Evidence[1].Why == "before") != x.stays ||
			(d.Arm.Knobs.ThreadsPrefill == 1) != x.stays || d.Arm.Knobs.ThreadsDecode != u.Knobs.ThreadsDecode {
			t.Errorf("%s: stays %t, marked %v, %+v, %+v", name, stays, d.Notes, d.Evidence, d.Arm.Knobs)
		}
		if x.stays && (look.Status != cache.Revalidate || !look.Fits(d) || !strings.Contains(look.Why, "prefill was not checked")) {
			t.Errorf("%s: %+v", name, look)
		}
		if !slices.ContainsFunc(d.Won, func(p kernel.Problem) bool { return p.M == 1 }) || x.stays != slices.Contains(d.Won, old.Problem) {
			t.Errorf("%s: won %v", name, d.Won)
		}
	}
}
