package session

import (
	"slices"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// TensorComprehensions#230: what an imported rule says is a candidate: it is measured before anything
// else is proposed, and what was not measured is not written as if it had been.
func TestImportedRulesAreMeasured(t *testing.T) {
	u := testTune(t)
	c := u.classes[0]
	ch := u.variant(t, 1)
	rule := cache.Rule{Key: u.Target.RuleKey(c.Format), Layout: ch.Problem.Layout, Imported: true,
		Choices: []cache.RuleChoice{{M: 1, Backend: ch.Backend, Config: ch.Config}, {M: 512, Backend: "other", Config: kernel.Config{"x": 1}}}}
	if err := u.Store.PutRule(rule); err != nil {
		t.Fatal(err)
	}
	q, err := u.questOf(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	sp, err := u.space(t.Context(), q.def)
	if err != nil {
		t.Fatal(err)
	}
	s, err := search.NewDefault(sp, 1, candidates)
	if err != nil {
		t.Fatal(err)
	}
	h := &hinted{s, q.hints}
	cs := h.Ask(2)
	same := func(x search.Candidate) bool { return x.Config.String() == ch.Config.String() }
	if len(cs) == 0 || !same(cs[0]) || slices.ContainsFunc(cs[1:], same) || cs[0].Blocks < 1 || len(h.hints) != 0 {
		t.Errorf("asked for %v, hinted at %v", cs, ch.Config)
	}
	h.Tell([]search.Result{{Config: ch.Config, Score: 0.1, Blocks: 3}})
	want, _ := s.(search.Estimator).Estimate(ch.Config)
	if got, ok := search.Strategy(h).(search.Estimator).Estimate(ch.Config); !ok || got != want {
		t.Errorf("finals see an estimate of %v (%t), the strategy says %v", got, ok, want)
	}
	if q, err := u.questOf(t.Context(), c, 512); err != nil || len(q.hints) != 0 {
		t.Errorf("another backend's configuration: %v, %v", q.hints, err)
	}
	for searched, want := range map[int]bool{1: false, 64: true} {
		u.searched = map[pointID]bool{{c.Key(), searched}: true}
		if got := u.unmeasured(rule, c); got != want {
			t.Errorf("searched M=%d: unmeasured %t", searched, got)
		}
	}
}

// A published tune leaves an imported rule of which it measured nothing a candidate, and replaces one
// that it measured.
func TestPublishOverAnImportedRule(t *testing.T) {
	for _, measured := range []bool{false, true} {
		h := newFakeHost()
		h.gain[phaseDecode] = 1.1
		u := onFake(t, h, 10*time.Minute, 1)
		c := u.classes[0]
		ch := u.variant(t, 1)
		if err := u.Store.PutRule(cache.Rule{Key: u.Target.RuleKey(c.Format), Layout: ch.Problem.Layout, Imported: true,
			Choices: []cache.RuleChoice{{M: 1, Backend: ch.Backend, Config: ch.Config}}}); err != nil {
			t.Fatal(err)
		}
		for _, c := range u.classes {
			u.searched[pointID{c.Key(), 1}] = measured
		}
		conf, err := u.confirm(t.Context())
		if err == nil {
			err = u.publish(t.Context(), conf)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := u.Store.Rule(u.Target.RuleKey(c.Format)); r.Imported == measured {
			t.Errorf("measured %t: imported %t", measured, r.Imported)
		}
	}
}
