package resolve

import (
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
)

func feed(w *SpeedWatch, n int, d time.Duration) {
	for i := range n {
		w.Token(i, d)
	}
}

// The evidence says 100 tok/s.
func TestSpeedWatch(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		run  func(w *SpeedWatch)
		slow bool
	}{
		"as measured":               {func(w *SpeedWatch) { feed(w, 100, 10*ms) }, false},
		"a little slower":           {func(w *SpeedWatch) { feed(w, 100, 12*ms) }, false},
		"half as fast":              {func(w *SpeedWatch) { feed(w, 100, 20*ms) }, true},
		"too few tokens":            {func(w *SpeedWatch) { feed(w, watchSkip+watchTokens-1, 20*ms) }, false},
		"slow first tokens":         {func(w *SpeedWatch) { feed(w, watchSkip, time.Second); feed(w, 64, 10*ms) }, false},
		"one stall":                 {func(w *SpeedWatch) { feed(w, 30, 10*ms); feed(w, 1, time.Minute); feed(w, 60, 10*ms) }, false},
		"disturbed for most of it":  {func(w *SpeedWatch) { feed(w, 50, 20*ms); feed(w, 60, 10*ms) }, false},
		"later tokens do not count": {func(w *SpeedWatch) { feed(w, 100, 10*ms); feed(w, 500, 20*ms) }, false},
		"deep context is not judged": {func(w *SpeedWatch) {
			for i := range 100 {
				w.Token(2000+i, 20*ms)
			}
		}, false},
		"a clock that stood": {func(w *SpeedWatch) { feed(w, 100, 0) }, false},
	} {
		w := newSpeedWatch([]cache.Evidence{{Phase: "prefill", Winner: 900}, {Phase: "decode", Default: 80, Winner: 100, Decision: "winner", Depth: 512}})
		c.run(w)
		if got := w.Slow(); (got != "") != c.slow {
			t.Errorf("%s: %q", name, got)
		}
	}
	var none *SpeedWatch
	feed(none, 100, time.Second)
	if newSpeedWatch(nil) != nil || none.Slow() != "" {
		t.Error("a watch without evidence")
	}
	if w := newSpeedWatch([]cache.Evidence{{Phase: "decode", Default: 80, Winner: 100, Decision: "no winner"}}); w.rate != 80 {
		t.Errorf("the default runs, compared with %g", w.rate)
	}
}

// A slow run marks the decision; the next start still runs it and says so. A reading switches nothing.
func TestSlowRunMarksOnly(t *testing.T) {
	w := newWorld(t)
	w.tuned("generic", nil)
	p := w.plan(w.store)
	watch := p.Watch()
	feed(watch, 100, 30*time.Millisecond)
	why, err := p.Judge(watch)
	if err != nil || why == "" || p.Tuning != TuningExact {
		t.Fatalf("%q %v", why, err)
	}
	if next := w.plan(w.store); next.Tuning != TuningExact || next.Lookup.Status != cache.Revalidate {
		t.Errorf("%s %+v", next.Tuning, next.Lookup)
	}
}
