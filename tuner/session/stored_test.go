package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/journal"
)

// A tune for decode alone keeps the stored winner of prefill with its kernels, in whatever layout they read
// the weights, also where it would find a faster layout for decode, and where prefill was asked for and
// turned out too noisy: the model is loaded again in its layout then. Where that turns out in
// the confirmation, and the search did not end in its layout, the stored decision stays as it was, and that
// is said. A winner whose layout no backend reads any more is dropped, and that is said.
func TestOtherPhaseKeepsItsWinner(t *testing.T) {
	for name, c := range map[string]struct {
		layout kernel.Layout
		asked  bool
		stays  bool
		held   bool // nothing is written
	}{
		"default layout": {narrow, false, true, false}, "moved": {broad, false, true, false},
		"set aside": {narrow, true, true, false}, "moved, set aside": {broad, true, true, false},
		"moved, disturbed":    {broad, true, true, true},
		"no backend reads it": {kernel.Layout{Lanes: 5, Cols: 1}, false, false, false},
	} {
		h := newFakeHost()
		h.gain[phaseDecode] = 1.1
		h.speed = func(a *kernel.Artifact) float64 { // a layout that the search would take
			if a.Key.Problem.Layout == broad && !c.held {
				return 1.5
			}
			return 1 + float64(a.Key.Config["chunk"]%3)/10
		}
		if c.asked && !c.held {
			h.noise[phasePrefill] = 0.6
		}
		var prefill kernel.Choice
		u, _, err := whole(t, h, 3*time.Minute, func(u *tune) {
			u.Prefill, u.asked[phasePrefill] = c.asked, c.asked
			u.Suite.Backends["generic"] = choosy{u.Suite.Backends["generic"]}
			prefill = u.variant(t, 512)
			prefill.Problem.Layout = c.layout
			if c.held {
				u.Watch = onlyPrefill{h, u}
			}
			tell := u.Progress
			u.Progress = func(stage, detail string) {
				if tell(stage, detail); c.held && strings.Contains(detail, "not searched") {
					t.Errorf("%s: %s %s", name, stage, detail)
				}
			}
			u.stored(t, func(d *cache.Decision) {
				d.Arm.Choices, d.Won = []kernel.Choice{prefill}, []kernel.Problem{prefill.Problem}
				d.Evidence = []cache.Evidence{{Phase: phaseDecode, Decision: "no winner"}, {Phase: phasePrefill, Decision: "winner", Why: "before"}}
			})
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		key, err := u.Target.DecisionKey()
		if err != nil {
			t.Fatal(err)
		}
		d, _ := u.Store.Decision(key)
		if len(d.Evidence) != 2 || (d.Evidence[0].Decision == "winner") == c.held {
			t.Fatalf("%s: decode has no winner: %+v", name, d.Evidence)
		}
		if v := u.verdictOn(phaseDecode); v.Decision != "winner" || c.held != strings.Contains(v.Why, "not stored") || c.held != (u.res.Written == 0) {
			t.Errorf("%s: %d written, %+v", name, u.res.Written, v)
		}
		got, ok := d.Arm.Find(prefill.Problem)
		if stays := ok && got.Config.String() == prefill.Config.String(); stays != c.stays || stays != (d.Evidence[1].Why == "before") ||
			stays != slices.Contains(d.Won, prefill.Problem) {
			t.Errorf("%s: stays %t, %+v, won %v", name, stays, d.Evidence[1], d.Won)
		}
		if !c.stays && !strings.Contains(d.Evidence[1].Why, "stored before is dropped") {
			t.Errorf("%s: lost in silence: %+v", name, d.Evidence[1])
		}
	}
}

// choosy is a backend that does not read one layout.
type choosy struct{ kernel.Backend }

func (c choosy) Space(ctx context.Context, h kernel.Features, p kernel.Problem) (kernel.Space, error) {
	if p.Layout.Lanes == 5 {
		return kernel.Space{}, kernel.ErrUnsupported
	}
	return c.Backend.Space(ctx, h, p)
}

// A tune that was killed proposes what it proposed before, whatever others have stored meanwhile: nothing
// that was measured is measured again.
func TestResumedTuneKnowsWhatItKnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	rule := func(u *tune, c model.Class, cfg kernel.Config) {
		ch := u.variant(t, 1)
		if err := u.Store.PutRule(cache.Rule{Key: u.Target.RuleKey(c.Format), Layout: ch.Problem.Layout, Imported: true,
			Choices: []cache.RuleChoice{{M: 1, Backend: ch.Backend, Config: cfg}}}); err != nil {
			t.Fatal(err)
		}
	}
	var last []byte
	run := func(cut int, cfg kernel.Config) *tune {
		h := newFakeHost()
		h.gain[phaseDecode] = 1.1
		u, _, err := whole(t, h, 3*time.Minute, func(u *tune) {
			u.Prefill, u.asked[phasePrefill] = false, false
			rule(u, u.classes[0], cfg)
			var err error
			if u.journal, err = journal.Open(path, "s"); err != nil {
				t.Fatal(err)
			}
			h.each = func() {
				if b, err := os.ReadFile(path); err == nil {
					last = b
				}
				if h.steps == cut {
					h.cancel(context.Canceled)
				}
			}
		})
		if (cut > 0) != errors.Is(err, context.Canceled) || cut <= 0 && err != nil {
			t.Fatal(err)
		}
		return u
	}
	first := run(40, kernel.Config{"mr": 1, "chunk": 2})
	first.closeJournal()
	before := lines(t, last)
	again := run(-1, kernel.Config{"mr": 1, "chunk": 8})
	after := lines(t, last)
	f := first.classes[0].Format
	r1, _ := first.known().rule(f)
	r2, _ := again.known().rule(f)
	if len(before) < 15 || len(after) <= len(before) || strings.Join(after[:len(before)], "") != strings.Join(before, "") {
		t.Fatalf("%d records, then %d", len(before), len(after))
	}
	if r1.Choices[0].Config.String() != r2.Choices[0].Config.String() {
		t.Errorf("knew %v, then %v", r1.Choices, r2.Choices)
	}
	onlyOnce(t, after)
}

// onlyPrefill disturbs the passes of prefill in the confirmation.
type onlyPrefill struct {
	h *fakeHost
	u *tune
}

func (onlyPrefill) Mark() any { return nil }
func (w onlyPrefill) Disturbed(any) string {
	if w.u.tuned != nil && w.h.benches[len(w.h.benches)-1].Test.Gen == 0 {
		return "steal"
	}
	return ""
}
