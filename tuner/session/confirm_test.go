package session

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/journal"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/runner"
)

// count counts the jobs of a workload.
func (h *fakeHost) count(w bench.Test) (n int) {
	for _, b := range h.benches {
		if b.Test == w {
			n++
		}
	}
	return n
}

// Phases are judged apart: what gains in decode alone wins there, and prefill, which runs the same in
// both arms, is inert and not measured.
func TestPhasesAreJudgedApart(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode] = 1.1
	u := onFake(t, h, 10*time.Minute, 1)
	c, err := u.confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.decode.Decision != measure.Winner || c.decode.Ratio.Median < 1.08 || c.decode.Ratio.Median > 1.12 {
		t.Errorf("decode: %+v", c.decode.Verdict)
	}
	gains := c.decode.judge.Gains(measure.DecodeRate.Name, armTuned, armDefault)
	if want := stat.CI(gains, looks(contest{pairs: maxPairs}).Conf(false)).Exp(); c.decode.Ratio.Lo != want.Lo {
		t.Errorf("an early look is not paid for: from %v, at its confidence from %v", c.decode.Ratio.Lo, want.Lo)
	}
	if c.prefill.Why != measure.WhyInert || h.count(bench.PP512) != 0 || u.res.Verdicts[1].Why != measure.WhyInert {
		t.Errorf("prefill was run %d times: %+v", h.count(bench.PP512), c.prefill.Verdict)
	}
	if len(c.sabotage.Caught) != 3 || len(c.sabotage.Missed) != 0 {
		t.Errorf("%+v", c.sabotage)
	}
	// A clear case ends at the first look.
	if h.starts != 2*firstLook || u.res.Verdicts[0].Kept != firstLook {
		t.Errorf("%d processes, %+v", h.starts, u.res.Verdicts[0])
	}

	h = newFakeHost()
	h.gain[phasePrefill] = 1.2
	u = onFake(t, h, 10*time.Minute, 512)
	if c, err = u.confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.prefill.Decision != measure.Winner || c.decode.Why != measure.WhyInert || len(c.sabotage.Caught) != 3 {
		t.Errorf("%+v %+v %+v", c.prefill.Verdict, c.decode.Verdict, c.sabotage)
	}
}

// A knob belongs to the phases that it acts on; one that the workload never reaches is no evidence.
func TestEvidenceOfAPhase(t *testing.T) {
	u := onFake(t, newFakeHost(), time.Hour)
	for name, c := range map[string]struct {
		change          func(k *kernel.Knobs)
		decode, prefill bool
	}{
		"decode threads":  {func(k *kernel.Knobs) { k.ThreadsDecode = 1 }, true, false},
		"prefill threads": {func(k *kernel.Knobs) { k.ThreadsPrefill = 1 }, false, true},
		"chunk":           {func(k *kernel.Knobs) { k.PrefillChunk = 256 }, false, true},
		"long chunk":      {func(k *kernel.Knobs) { k.PrefillChunk = 2048 }, false, false},
		"panels":          {func(k *kernel.Knobs) { k.PanelMinM = 65 }, false, false},
		"loading":         {func(k *kernel.Knobs) { k.RepackRows = 16 }, false, false},
		"spin":            {func(k *kernel.Knobs) { k.SpinMicros = 7 }, true, true},
	} {
		u.knobs = u.Knobs
		c.change(&u.knobs)
		d, err1 := u.newJudged(t.Context(), phaseDecode, measure.DecodeRate, true)
		p, err2 := u.newJudged(t.Context(), phasePrefill, measure.PrefillRate, true)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if d.live != c.decode || p.live != c.prefill {
			t.Errorf("%s acts on decode %t, prefill %t", name, d.live, p.live)
		}
	}
	k := u.Knobs
	k.PrefillChunk, k.PanelMinM = 200, 201
	if got := phasePoints(phasePrefill, k); len(got) != 1 || got[0] != 64 {
		t.Errorf("chunks of 200, 200 and 112 rows below the panels run points %v", got)
	}
}

// A run whose judge misses what was planted is void.
func TestVoid(t *testing.T) {
	for name, spoil := range map[string]func(h *fakeHost){
		"the slowed arm is not connected": func(h *fakeHost) { h.once = true },
		"its samples never count": func(h *fakeHost) {
			h.nonce = func(b runner.Bench) string {
				if b.Reps > 1 {
					return "another"
				}
				return ""
			}
		},
	} {
		h := newFakeHost()
		h.gain[phaseDecode] = 1.1
		spoil(h)
		u := onFake(t, h, 10*time.Minute, 1)
		c, err := u.confirm(t.Context())
		if !errors.Is(err, measure.ErrVoid) || u.res.Sabotage == nil || len(u.res.Sabotage.Missed) == 0 {
			t.Errorf("%s: %v, %+v", name, err, u.res.Sabotage)
		}
		if c.decode.Decision == measure.Winner || !strings.Contains(u.res.Verdicts[0].Why, "planted/slow") {
			t.Errorf("%s: a winner all the same: %+v", name, u.res.Verdicts)
		}
		if c.carried != maxPairs {
			t.Errorf("%s: given up after %d pairs: more could have shown that it was chance", name, c.carried)
		}
	}
}

// Planting is left out, and it is said why, when the pairs would not fit with it; and what three pairs
// do not fit in is not started.
func TestConfirmationFitsItsBudget(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode] = 1.1
	u := onFake(t, h, time.Hour, 1)
	bare := 3*u.contestTakes(contest{decode: true})*91/100 + reserve
	u.deadline = h.now.Add(bare)
	c, err := u.confirm(t.Context())
	if err != nil || !strings.Contains(c.sabotage.Why, "time") || c.decode.Verdict.Pairs < 3 || h.now.After(u.deadline) {
		t.Errorf("%v %+v %+v", err, c.sabotage, c.decode.Verdict)
	}
	h = newFakeHost()
	u = onFake(t, h, bare/2, 1)
	if c, err = u.confirm(t.Context()); err != nil || h.starts != 0 || u.res.Verdicts[0].Why != measure.WhyBudget {
		t.Errorf("%v, %d processes: %+v", err, h.starts, u.res.Verdicts)
	}
}

// What the deadline overtakes is neither a crash of the arm nor journalled.
func TestDeadlineInADuel(t *testing.T) {
	h := newFakeHost()
	h.blockFor = true
	u := onFake(t, h, 0, 1)
	var err error
	if u.journal, err = journal.Open(filepath.Join(t.TempDir(), "j"), "s"); err != nil {
		t.Fatal(err)
	}
	defer u.closeJournal()
	u.deadline = h.now.Add(reserve/2 + 20*time.Millisecond)
	ctx, stop := u.within(t.Context())
	defer stop()
	b := contest{decode: true, planners: [2]*planner{u.lab.plan, u.lab.plan}, knobs: [2]kernel.Knobs{u.Knobs, u.Knobs}}
	if _, err := u.duel(ctx, 0, [2]int{0, 1}, b); err != errBudget || u.journal.Resumed() != 0 {
		t.Errorf("%v, %d records", err, u.journal.Resumed())
	}
}

// A duel that was finished before a kill counts; the floor is measured anew; another arm starts over.
func TestResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	confirm := func(h *fakeHost, budget time.Duration, point int) confirmation {
		h.gain[phaseDecode], h.noise[phaseDecode] = 1.012, 0.003
		u := onFake(t, h, budget, point)
		var err error
		if u.journal, err = journal.Open(path, "s"); err != nil {
			t.Fatal(err)
		}
		defer u.closeJournal()
		p, _ := h.start(t.Context(), u.lab.plan)
		before := len(h.benches)
		if err := u.floor(t.Context(), p); err != nil || len(h.benches) < before+2*floorMin {
			t.Fatalf("the floor took %d jobs: %v", len(h.benches)-before, err)
		}
		h.starts = 0
		c, err := u.confirm(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := newFakeHost()
	a := confirm(first, 70*time.Second, 1)
	again := newFakeHost()
	b := confirm(again, 70*time.Second, 1)
	if done := first.starts / 2; done < 3 || again.starts/2 > maxPairs-done {
		t.Errorf("%d pairs, then %d more", done, again.starts/2)
	}
	if n := a.decode.Verdict.Pairs; b.decode.Verdict.Pairs < n {
		t.Errorf("%d pairs, %d after the resumption", n, b.decode.Verdict.Pairs)
	}
	other := newFakeHost()
	if confirm(other, 70*time.Second, 512); other.starts == 0 {
		t.Error("another arm was judged by the pairs of the first")
	}
}

// disturbing voids the blocks of the rounds that it is told to.
type disturbing struct{ when func(n int) bool }

var blocks int

func (disturbing) Mark() any { return nil }
func (d disturbing) Disturbed(any) string {
	blocks++
	if d.when(blocks) {
		return "steal"
	}
	return ""
}

// A disturbance voids the phase of a pair in which it fell, for both arms; the other phase counts.
func TestDisturbedPairs(t *testing.T) {
	h := newFakeHost()
	h.gain[phaseDecode], h.gain[phasePrefill] = 1.1, 1.1
	u := onFake(t, h, 10*time.Minute, 1, 512)
	blocks = 0
	u.Watch = disturbing{func(n int) bool { return n == 1 }} // prefill of the first pair
	c, err := u.confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if k, of := c.prefill.judge.Kept(); of-k != 1 {
		t.Errorf("prefill kept %d of %d", k, of)
	}
	if k, of := c.decode.judge.Kept(); k != of || c.decode.Decision != measure.Winner {
		t.Errorf("decode kept %d of %d: %+v", k, of, c.decode.Verdict)
	}
}
