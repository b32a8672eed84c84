package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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
// spared (done); if not, the search starts afresh.
func (t *tune) revalidate(ctx context.Context) (c confirmation, done bool, err error) {
	d, why := t.hint()
	if why == "" || !t.recall(ctx, d) {
		return c, false, nil
	}
	t.Progress("revalidate", why)
	slog.Info("checking the stored arm first", "why", why)
	t.lab.close() // its memory and its threads are in the way
	end, before := t.deadline, len(t.res.Verdicts)
	t.deadline = t.now().Add(time.Duration(shareCheck * float64(t.left())))
	t.short = true
	c, err = t.confirm(ctx)
	t.short, t.deadline = false, end
	if err != nil || t.holds(d, c) {
		return c, true, err
	}
	for i := range t.res.Verdicts[before:] {
		v := &t.res.Verdicts[before+i]
		v.Problem, v.Why = "stored arm", fmt.Sprintf("%s; searched again because: %s", v.Why, why)
	}
	t.forget()
	return c, false, nil
}

// hint returns the stored decision that wants a check, and why; why is "" if there is none.
func (t *tune) hint() (d cache.Decision, why string) {
	k := t.known()
	if k.Look.Status != cache.Revalidate || len(t.claims(k.Decision)) == 0 {
		return d, ""
	}
	return k.Decision, k.Look.Why
}

// claims are the phases, of those that are tuned for, in which the decision has a winner.
func (t *tune) claims(d cache.Decision) []string {
	var out []string
	for _, e := range d.Evidence {
		if t.asked[e.Phase] && e.Decision == string(measure.Winner) {
			out = append(out, e.Phase)
		}
	}
	return out
}

// holds reports whether the check confirmed every claim.
func (t *tune) holds(d cache.Decision, c confirmation) bool {
	for _, phase := range t.claims(d) {
		if c.of(phase).Decision != measure.Winner {
			return false
		}
	}
	return true
}

// noResult reports whether the store holds winners for the key about none of which the confirmation
// says anything, for want of time or of quiet, or because the arms did not differ there: they are not
// overwritten with the default.
func (t *tune) noResult(key cache.DecisionKey, c confirmation) bool {
	d, look := t.Store.Decision(key)
	claims := t.claims(d)
	if look.Status == cache.Miss || len(claims) == 0 || c.decode.Decision == measure.Winner || c.prefill.Decision == measure.Winner {
		return false
	}
	return !slices.ContainsFunc(claims, func(phase string) bool { return t.says(c.of(phase)) })
}

// says reports whether the confirmation came to a result in a phase. Arms that are equal there, and ran
// only beside planted ones, say nothing.
func (t *tune) says(g *judged) bool {
	return g.Decision == measure.Winner || g.Why != measure.WhyInert && g.Verdict.Pairs >= stat.MinPairs && t.floorOf(g.phase).Level != measure.Refused
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
		moved := false
		if ch, ok := d.Arm.Find(c.Problem(t.Target.Numerics.Weights, 1, kernel.Layout{})); ok && ch.Problem.Layout != l {
			l, moved = ch.Problem.Layout, true
			t.layouts[c.Key()] = l
		}
		for _, m := range kernel.MPoints {
			prob := c.Problem(t.Target.Numerics.Weights, m, l)
			ch, ok := d.Arm.Find(prob)
			if !ok {
				continue
			}
			def, err := t.lab.plan.Choice(ctx, prob)
			if err != nil || !moved && def.Backend == ch.Backend && def.Config.String() == ch.Config.String() {
				continue
			}
			if err := t.vet(ctx, ch, ch.Config); err != nil {
				slog.Info("stored arm not used", "problem", prob, "why", err)
				t.forget()
				return false
			}
			t.best[pointID{c.Key(), m}] = screened{ch, 2 * smallGain} // it was clear when it was stored
		}
	}
	return t.changed()
}

// forget clears the composed arm.
func (t *tune) forget() {
	t.best, t.knobs, t.tuned = map[pointID]screened{}, t.Knobs, nil
	clear(t.layouts)
}
