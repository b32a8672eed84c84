package session

import (
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
)

func TestSurveyWritesRulesAndNoDecision(t *testing.T) {
	o, err := tinyOptions(t.TempDir(), 8*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Store.Close)
	classes, err := o.Target.Model.Classes(o.Target.Numerics)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Survey(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := o.Target.DecisionKey(); err != nil {
		t.Fatal(err)
	} else if _, look := o.Store.Decision(key); look.Status != cache.Miss {
		t.Errorf("a survey wrote a decision: %s", look.Why)
	}
	if res.Written == 0 {
		t.Skip("this machine was too busy to screen anything")
	}
	whole := true
	for _, c := range classes {
		r, look := o.Store.Rule(o.Target.RuleKey(c.Format))
		if look.Status != cache.Exact || len(r.Choices) == 0 {
			t.Errorf("no rule for %s: %s", c.Format, look.Why)
		}
		whole = whole && len(r.Choices) == len(surveyed)
		for _, ch := range r.Choices {
			prob := c.Problem(o.Target.Numerics.Weights, ch.M, r.Layout)
			if _, err := o.Suite.Emit(t.Context(), kernel.Choice{Problem: prob, Backend: ch.Backend, Config: ch.Config}); err != nil {
				t.Errorf("rule for %s at M=%d: %v", c.Format, ch.M, err)
			}
		}
	}
	if !whole {
		t.Skip("this machine was too busy to screen every point")
	}
	o.Started = time.Now()
	if again, err := Survey(t.Context(), o); err != nil || again.Written != 0 || len(again.Verdicts) != 0 {
		t.Errorf("known formats were surveyed again: %d rules, %v", again.Written, err)
	}
}

func TestTuneWithoutResultWritesNothing(t *testing.T) {
	u := testTune(t)
	u.asked = map[string]bool{phaseDecode: true, phasePrefill: true}
	short := judged{phase: phaseDecode, Verdict: measure.Verdict{Why: measure.WhyBudget}}
	kept := judged{phase: phasePrefill, Verdict: measure.Verdict{Why: "within the noise floor"}}
	late := judged{phase: phasePrefill, Verdict: measure.Verdict{Why: measure.WhyBudget}}
	if c := (confirmation{decode: short, prefill: kept}); u.unheard(c) {
		t.Error("a phase that was judged is no result")
	}
	if c := (confirmation{decode: short, prefill: late}); !u.unheard(c) {
		t.Error("no phase was judged, and that is a result")
	}
	u.aside = map[string]string{phasePrefill: "the A/A noise floor is 12%"}
	if c := (confirmation{decode: short, prefill: kept}); !u.unheard(c) {
		t.Error("a phase set aside is a result")
	}
}
