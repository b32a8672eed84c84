package session

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

const (
	shareCheck = 0.4 // of the time left, for the check of a stored arm
	checkPairs = 5
)

// revalidate gives a stored decision that is only a hint (another build, kernel or microcode; marked
// by the engine; imported) a short paired check against the default, by the rules of the
// confirmation. If all that it claims still holds it is published under today's key and the search is
// spared; if not, the search starts afresh.
func (t *tune) revalidate(ctx context.Context) (done bool, err error) {
	d, why := t.hint()
	if why == "" || !t.recall(ctx, d) {
		return false, nil
	}
	t.Progress("revalidate", why)
	slog.Info("checking the stored arm first", "why", why)
	t.lab.close() // its memory and its threads are in the way
	end, before := t.deadline, len(t.res.Verdicts)
	t.deadline = time.Now().Add(time.Duration(shareCheck * float64(t.left())))
	t.short = true
	c, err := t.confirm(ctx)
	t.short, t.deadline = false, end
	if err != nil {
		return false, err
	}
	if t.holds(d, c) {
		return true, t.publish(ctx, c)
	}
	for i := range t.res.Verdicts[before:] {
		v := &t.res.Verdicts[before+i]
		v.Problem, v.Why = "stored arm", fmt.Sprintf("%s; searched again because: %s", v.Why, why)
	}
	t.forget()
	return false, nil
}

// hint returns the stored decision that wants a check, and why; why is "" if there is none.
func (t *tune) hint() (d cache.Decision, why string) {
	key, err := t.Target.DecisionKey()
	if err != nil || t.Store == nil {
		return d, ""
	}
	d, look := t.Store.Decision(key)
	if look.Status != cache.Revalidate || len(t.claims(d)) == 0 {
		return d, ""
	}
	return d, look.Why
}

// claims are the phases, of those that are tuned for, in which the decision has a winner.
func (t *tune) claims(d cache.Decision) []string {
	on := map[string]bool{phaseDecode: t.Decode, phasePrefill: t.Prefill}
	var out []string
	for _, e := range d.Evidence {
		if on[e.Phase] && e.Decision == string(measure.Winner) {
			out = append(out, e.Phase)
		}
	}
	return out
}

// holds reports whether the check confirmed every claim.
func (t *tune) holds(d cache.Decision, c confirmation) bool {
	got := map[string]measure.Decision{phaseDecode: c.decode.Decision, phasePrefill: c.prefill.Decision}
	for _, phase := range t.claims(d) {
		if got[phase] != measure.Winner {
			return false
		}
	}
	return true
}

// noResult reports whether the store holds a winner for the key that the confirmation says nothing
// about, for want of time or of quiet: it is not overwritten with the default.
func (t *tune) noResult(key cache.DecisionKey, c confirmation) bool {
	d, look := t.Store.Decision(key)
	claims := t.claims(d)
	if look.Status == cache.Miss || len(claims) == 0 {
		return false
	}
	got := map[string]measure.Verdict{phaseDecode: c.decode, phasePrefill: c.prefill}
	for _, phase := range claims {
		if v := got[phase]; v.Decision == measure.Winner || v.Pairs >= stat.MinPairs && t.res.Floor.Level != measure.Refused {
			return false
		}
	}
	return true
}

// recall composes the stored arm from the backends of today: what differs from the default, each
// emitted again and checked alone in the probe process. It reports whether there is an arm to check.
func (t *tune) recall(ctx context.Context, d cache.Decision) bool {
	k := d.Arm.Knobs
	fits := func(n int) bool { return n >= 1 && n <= len(t.CPUs) }
	if !fits(k.ThreadsDecode) || !fits(k.ThreadsPrefill) || k.PrefillChunk < 1 || k.RepackRows < 1 || k.PanelMinM < 1 || k.KV != t.Knobs.KV {
		return false
	}
	t.knobs = k
	for _, c := range t.classes {
		l, err := t.lab.plan.Layout(ctx, c)
		if err != nil {
			t.forget()
			return false
		}
		for _, m := range kernel.MPoints {
			prob := c.Problem(t.Target.Numerics.Weights, m, l)
			ch, ok := d.Arm.Find(prob)
			if !ok {
				continue
			}
			def, err := t.lab.plan.Choice(ctx, prob)
			if err != nil || def.Backend == ch.Backend && def.Config.String() == ch.Config.String() {
				continue
			}
			if err := t.vet(ctx, ch, ch.Config); err != nil {
				slog.Info("stored arm not used", "problem", prob, "why", err)
				t.forget()
				return false
			}
			t.best[pointID{c.Key(), m}] = screened{Choice: ch, Gain: smallGain * 2}
		}
	}
	return t.changed()
}

// forget clears the composed arm.
func (t *tune) forget() {
	t.best, t.knobs, t.tuned, t.arms = map[pointID]screened{}, t.Knobs, nil, nil
}
