package session

import (
	"context"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
)

// inherited is what the store says of the phases that this tune leaves as they were. A hint stays a hint
// (why is not ""): of its winners those stay that today's backends make and that pass the probe, and
// they are marked for the tune that asks for them. What was imported is never taken over unmeasured.
func (t *tune) inherited(ctx context.Context, key cache.DecisionKey, c confirmation) (old cache.Decision, why string) {
	old, look := t.Store.Decision(key)
	switch {
	case look.Status == cache.Exact:
		return old, ""
	case look.Status == cache.Miss || old.Imported:
		return cache.Decision{}, ""
	}
	old.Evidence = slices.DeleteFunc(slices.Clone(old.Evidence), func(e cache.Evidence) bool {
		if !t.keeps(c.of(e.Phase)) || e.Decision != string(measure.Winner) {
			return true
		}
		runs := t.stillRuns(ctx, old.Arm, e.Phase)
		if !runs {
			t.drops(e.Phase, "its kernels are not made any more, or fail the probe")
		}
		return !runs
	})
	stays := func(phase string) bool {
		return slices.ContainsFunc(old.Evidence, func(e cache.Evidence) bool { return e.Phase == phase })
	}
	old.Arm.Choices = slices.DeleteFunc(slices.Clone(old.Arm.Choices), func(ch kernel.Choice) bool { return !stays(phaseOf(ch.Problem.M)) })
	if !stays(phaseDecode) {
		old.Arm.Knobs.ThreadsDecode = 0
	}
	if !stays(phasePrefill) {
		old.Arm.Knobs.ThreadsPrefill = 0
	}
	return old, look.Why
}

// stillRuns reports whether the choices of an arm in a phase can be made and pass the probe in the time
// that is left.
func (t *tune) stillRuns(ctx context.Context, arm kernel.Arm, phase string) bool {
	ctx, cancel := context.WithTimeout(ctx, t.left()-reserve/2)
	defer cancel()
	return !slices.ContainsFunc(arm.Choices, func(ch kernel.Choice) bool {
		return ch.Problem.Op == kernel.OpLinear && phaseOf(ch.Problem.M) == phase && t.vet(ctx, ch, ch.Config) != nil
	})
}

// finalArm is every choice that was made while the arms ran, with the confirmed winners in place of
// the defaults.
func (t *tune) finalArm(ctx context.Context, c confirmation, old kernel.Arm) kernel.Arm {
	byProblem := map[kernel.Problem]kernel.Choice{}
	for _, p := range []*planner{t.lab.plan, t.tuned} {
		for _, ch := range p.choices() {
			if _, ok := byProblem[ch.Problem]; !ok {
				byProblem[ch.Problem] = ch
			}
		}
	}
	for _, ch := range old.Choices { // a phase that this tune left alone keeps its winners
		if _, ok := byProblem[ch.Problem]; ok && ch.Problem.Op == kernel.OpLinear && t.keeps(c.at(ch.Problem.M)) {
			byProblem[ch.Problem] = ch
		}
	}
	for _, ch := range t.finalists() {
		stands := func(class model.Class) bool { return holds(class, ch.Problem) && t.layoutStands(c, class) }
		if c.won(ch.Problem.M) || slices.ContainsFunc(t.classes, stands) {
			byProblem[ch.Problem] = ch
		}
	}
	arm := kernel.Arm{Knobs: t.confirmedKnobs(c, old.Knobs)}
	for _, ch := range byProblem {
		arm.Choices = append(arm.Choices, ch)
	}
	arm.Choices = t.laidOut(ctx, c, arm.Choices)
	slices.SortFunc(arm.Choices, func(a, b kernel.Choice) int {
		return strings.Compare(a.Problem.String(), b.Problem.String())
	})
	return arm
}

// winners are the problems of an arm that are not served as the default arm serves their class. Backends
// were asked for the default arm before; what they have not told by then and do not tell in the time that
// is left makes no winner.
func (t *tune) winners(ctx context.Context, arm kernel.Arm) []kernel.Problem {
	ctx, cancel := context.WithTimeout(ctx, t.left()-reserve/2)
	defer cancel()
	var out []kernel.Problem
	for _, ch := range arm.Choices {
		if ch.Problem.Op != kernel.OpLinear {
			continue
		}
		stays := slices.ContainsFunc(t.classes, func(c model.Class) bool {
			l, known := t.lab.plan.knownLayout(c.Format)
			return holds(c, ch.Problem) && (!known || l == ch.Problem.Layout)
		})
		if stays {
			def, err := t.lab.plan.Choice(ctx, ch.Problem)
			if err != nil || def.Backend == ch.Backend && def.Config.String() == ch.Config.String() {
				continue
			}
		}
		out = append(out, ch.Problem)
	}
	return out
}

// at is the phase of a tuning point.
func (c *confirmation) at(m int) *judged { return c.of(phaseOf(m)) }

// won reports whether the tuned arm won the phase of a tuning point.
func (c *confirmation) won(m int) bool { return c.at(m).Decision == measure.Winner }

// confirmedKnobs takes each phase's knobs from the arm that stands in that phase.
func (t *tune) confirmedKnobs(c confirmation, old kernel.Knobs) kernel.Knobs {
	k := t.Knobs
	decode, prefill := t.Knobs, t.Knobs
	if old.ThreadsDecode > 0 && t.keeps(&c.decode) {
		decode = old
	}
	if old.ThreadsPrefill > 0 && t.keeps(&c.prefill) {
		prefill = old
	}
	if c.won(1) {
		decode = t.knobs
	}
	if c.won(512) {
		prefill = t.knobs
	}
	k.ThreadsDecode = decode.ThreadsDecode
	k.ThreadsPrefill, k.PanelMinM, k.PrefillChunk = prefill.ThreadsPrefill, prefill.PanelMinM, prefill.PrefillChunk
	k.RepackRows = t.knobs.RepackRows // loading only: the confirmation does not cover it, its own race does
	return k
}
