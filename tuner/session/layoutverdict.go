package session

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

// judgeLayout says whether a layout gains in the phases that are tuned for, together, and loses in none.
func (t *tune) judgeLayout(x *layoutTrial) (joint float64, why string) {
	n := math.MaxInt
	for _, g := range x.gains {
		n = min(n, len(g))
	}
	if x.out != "" {
		return 0, x.out
	}
	if len(x.gains) == 0 || n < stat.MinPairs {
		return 0, measure.WhyBudget
	}
	sum := make([]float64, n)
	for m, g := range x.gains {
		if ci := stat.CI(g, 0.95); ci.Hi < 0 || ci.Center < -layoutGain {
			return 0, fmt.Sprintf("slower at M=%d", m)
		}
		for i := range sum {
			if t.asked[phaseOf(m)] {
				sum[i] += g[i]
			}
		}
	}
	if ci := stat.CI(sum, 0.95); ci.Lo <= 0 || ci.Center < layoutGain {
		return 0, "no gain beyond the noise"
	}
	return stat.Estimate(sum), ""
}

// noteLayouts takes over the layouts that won and reports all.
func (t *tune) noteLayouts(trials []*layoutTrial, skipped string) {
	for _, x := range trials {
		joint, why := 0.0, skipped
		if skipped == "" {
			joint, why = t.judgeLayout(x)
		}
		switch {
		case why != "":
		case joint > t.layoutGain[x.class.Key()]:
			t.takeLayout(x, joint)
		default:
			why = "another layout gains more"
		}
		for _, s := range layoutStages {
			if !covers(x.class, s.m) || !t.asked[phaseOf(s.m)] {
				continue
			}
			v := Verdict{Phase: phaseOf(s.m), Weights: string(t.Target.Numerics.Weights), Problem: fmt.Sprintf("%s m%d %s", x.class, s.m, x.to),
				Config: x.other[s.m].Config, Ratio: unknown(), Decision: string(measure.NoWinner), Why: why}
			if g := x.gains[s.m]; len(g) > 0 {
				ci := stat.CI(g, 0.95).Exp()
				v.Ratio = measure.Ratio{Median: ci.Center, Lo: ci.Lo, Hi: ci.Hi}
			}
			if why == "" {
				v.Finalist, v.Why = true, fmt.Sprintf("the layout gains in situ over %d pairs", len(x.gains[s.m]))
			}
			t.res.Verdicts = append(t.res.Verdicts, v)
		}
	}
}

// takeLayout makes a layout part of the composed arm, with its configurations. What other tuning
// points found holds for the layout of before only.
func (t *tune) takeLayout(x *layoutTrial, joint float64) {
	key := x.class.Key()
	t.layouts[key], t.layoutGain[key] = x.to, joint
	for i, v := range t.res.Verdicts {
		if v.Finalist && strings.HasPrefix(v.Problem, x.class.String()+" m") {
			t.res.Verdicts[i].Finalist = false
			t.res.Verdicts[i].Why += ", but its weights lie in another layout now: " + x.to.String()
		}
	}
	for _, m := range kernel.MPoints {
		delete(t.best, pointID{key, m})
	}
	for m, ch := range x.other {
		t.best[pointID{key, m}] = screened{ch, search.Sure(x.gains[m])}
	}
}

// tunedLayouts are the layouts of the composed arm.
func (t *tune) tunedLayouts() map[model.Key]kernel.Layout {
	out := maps.Clone(t.lab.plan.layouts)
	maps.Copy(out, t.layouts)
	return out
}

// vetoLayouts takes back a winner whose weight layout makes the other phase slower: both phases read
// the same bytes.
func (t *tune) vetoLayouts(c *confirmation) {
	if len(t.layouts) == 0 {
		return
	}
	decode, prefill := c.decode.Verdict, c.prefill.Verdict
	veto := func(v *measure.Verdict, other measure.Verdict, phase string) {
		if v.Decision == measure.Winner && other.Ratio.Hi < 1 {
			v.Decision, v.Why = measure.NoWinner, "its weight layout makes "+phase+" slower"
		}
	}
	veto(&c.decode.Verdict, prefill, phasePrefill)
	veto(&c.prefill.Verdict, decode, phaseDecode)
}

// layoutStands reports whether the composed arm's layout of a class is adopted: with either phase
// that won, since the other did not lose.
func (t *tune) layoutStands(c confirmation, class model.Class) bool {
	_, moved := t.layouts[class.Key()]
	return moved && (t.Decode && c.won(1) || t.Prefill && c.won(512))
}

// finalLayout is the layout of a class that is published.
func (t *tune) finalLayout(ctx context.Context, c confirmation, class model.Class) (kernel.Layout, error) {
	if t.layoutStands(c, class) {
		return t.layouts[class.Key()], nil
	}
	return t.lab.plan.Layout(ctx, class)
}

// holds reports whether a class has linear problems like prob, whatever the layout.
func holds(c model.Class, prob kernel.Problem) bool {
	return prob.Op == kernel.OpLinear && c.N == prob.N && c.K == prob.K && c.Format == prob.Format
}

// laidOut drops the choices for weights that the published arm does not hold in that layout.
func (t *tune) laidOut(ctx context.Context, c confirmation, choices []kernel.Choice) []kernel.Choice {
	return slices.DeleteFunc(choices, func(ch kernel.Choice) bool {
		used, known := false, false
		for _, class := range t.classes {
			packs := ch.Problem.Op == kernel.OpPack && ch.Problem.Format == class.Format
			if !packs && !holds(class, ch.Problem) {
				continue
			}
			l, err := t.finalLayout(ctx, c, class)
			known, used = true, used || err == nil && l == ch.Problem.Layout
		}
		return known && !used
	})
}

// sameLayouts reports whether two arms hold the model's weights alike: else what is known of a phase
// under one says nothing under the other.
func (t *tune) sameLayouts(a, b kernel.Arm) bool {
	for _, c := range t.classes {
		x, ok := layoutIn(a, c)
		if y, also := layoutIn(b, c); ok && also && x != y {
			return false
		}
	}
	return true
}

// layoutIn is the layout that an arm's kernels of a class read.
func layoutIn(a kernel.Arm, c model.Class) (kernel.Layout, bool) {
	i := slices.IndexFunc(a.Choices, func(ch kernel.Choice) bool { return holds(c, ch.Problem) })
	if i < 0 {
		return kernel.Layout{}, false
	}
	return a.Choices[i].Problem.Layout, true
}
