package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/wire"
)

// judged is one phase in the confirmation. Phases are judged apart: each has its own evidence of what
// the arms run there, its own floor, and blocks that only a disturbance of its own turns voids.
type judged struct {
	phase  string
	metric measure.Metric
	arms   []measure.Arm
	judge  *measure.Judge
	live   bool // asked for, and the arms differ in it
	// traces are those of either arm.
	traces [2]trace
	measure.Verdict
}

// confirmation is what the fresh processes said.
type confirmation struct {
	decode, prefill judged
	planted         measure.Planted
	carried         int // pairs that say something about the planted arms
	sabotage        measure.Sabotage
}

func (c *confirmation) phases() []*judged { return []*judged{&c.decode, &c.prefill} }

// of is the phase of a name.
func (c *confirmation) of(phase string) *judged {
	if phase == phaseDecode {
		return &c.decode
	}
	return &c.prefill
}

// newJudged prepares a phase for the default and the composed arm.
func (t *tune) newJudged(ctx context.Context, phase string, m measure.Metric, on bool) (judged, error) {
	arms := []measure.Arm{
		{Name: armDefault, Evidence: t.evidence(ctx, phase, nil, t.Knobs)},
		{Name: armTuned, Evidence: t.evidence(ctx, phase, t.finalists(), t.knobs)},
	}
	g := judged{phase: phase, metric: m, arms: arms, live: on && !maps.Equal(arms[0].Evidence, arms[1].Evidence)}
	return g, g.open(arms)
}

// trace is what the jobs of an arm left in their receipts, how often each, and whether any receipt of
// theirs says less than all.
type trace struct {
	left  map[string]int
	vague bool
}

func (x *trace) add(phase string, rec wire.Receipt) {
	left, whole := leftBy(phase, rec)
	if x.left == nil {
		x.left = map[string]int{}
	}
	x.left[left]++
	x.vague = x.vague || !whole
}

// leftBy is what a job left in its receipt: bytes, calls, and how many workers the regions of the phase ran
// on. It is not whole where the receipt does not count them: what differs may not show then.
func leftBy(phase string, rec wire.Receipt) (left string, whole bool) {
	var b strings.Builder
	fmt.Fprintln(&b, rec.Bytes, "bytes")
	if w := rec.Workers; w != nil && phase == phaseDecode {
		fmt.Fprintln(&b, w.Decode, "workers")
	} else if w != nil {
		fmt.Fprintln(&b, w.Prefill, "workers")
	}
	for _, d := range slices.Sorted(maps.Keys(rec.Calls)) {
		fmt.Fprintln(&b, d, rec.Calls[d])
	}
	return b.String(), rec.Workers != nil
}

// most is what most of the jobs left.
func (x trace) most() (most string) {
	for _, left := range slices.Sorted(maps.Keys(x.left)) {
		if x.left[left] > x.left[most] {
			most = left
		}
	}
	return most
}

// connected reports whether the receipts show that what tells the arms apart acts: other kernels, or for
// arms that differ in knobs alone, other calls or another number of workers. Receipts that do not say how
// many worked show nothing against it.
func (g *judged) connected() bool {
	a, b := g.traces[0], g.traces[1]
	return !slices.Equal(artifacts(g.arms[0]), artifacts(g.arms[1])) || len(a.left) == 0 || len(b.left) == 0 ||
		a.vague || b.vague || a.most() != b.most()
}

// open starts the comparison of arms, the planted ones included.
func (g *judged) open(arms []measure.Arm) (err error) {
	g.arms = arms
	g.judge, err = measure.New(arms, []measure.Metric{g.metric}, measure.Options{Fresh: true})
	return err
}

// evidence is what an arm runs in a phase of the confirmation's workload: the artifact digests of every
// class at the tuning points that its passes reach, and the knobs that act on it.
func (t *tune) evidence(ctx context.Context, phase string, over []kernel.Choice, k kernel.Knobs) map[string]string {
	layouts := t.lab.plan.layouts
	if over != nil {
		layouts = t.tunedLayouts()
	}
	p := t.lab.plan.with(over, layouts)
	out := actingKnobs(phase, k)
	for _, m := range phasePoints(phase, k) {
		for _, c := range t.classes {
			l, err := p.Layout(ctx, c)
			if err != nil || !covers(c, m) {
				continue
			}
			prob := c.Problem(t.Target.Numerics.Weights, m, l)
			if ch, err := p.Choice(ctx, prob); err == nil {
				if a, err := p.Artifact(ctx, ch); err == nil {
					out[prob.String()] = a.Digest()
				}
			}
		}
	}
	return out
}

// covers reports whether a class runs at a tuning point: the head runs for one row.
func covers(c model.Class, m int) bool { return c.Role != string(model.RoleHead) || m == 1 }

// knobEvidence begins the names of evidence that is no artifact.
const knobEvidence = "knob "

// actingKnobs are the knobs that act on a phase. PanelMinM is not among them: it chooses kernels, and
// they are evidence themselves. RepackRows acts on loading alone.
func actingKnobs(phase string, k kernel.Knobs) map[string]string {
	acts := map[string]any{"threads": k.ThreadsDecode, "spin": k.SpinMicros, "huge pages": k.HugePages, "kv": k.KV}
	if phase == phasePrefill {
		acts["threads"], acts["chunk"] = k.ThreadsPrefill, min(k.PrefillChunk, bench.PP512.Prompt)
	}
	out := map[string]string{}
	for name, v := range acts {
		out[knobEvidence+name] = fmt.Sprint(v)
	}
	return out
}

// phasePoints are the tuning points of the kernels that the phase's workload runs, as the engine
// chooses them.
func phasePoints(phase string, k kernel.Knobs) []int {
	if phase == phaseDecode {
		return []int{1}
	}
	var out []int
	for left := bench.PP512.Prompt; left > 0; left -= k.PrefillChunk {
		m := min(left, k.PrefillChunk)
		p := kernel.MPoint(m)
		last := kernel.MPoints[len(kernel.MPoints)-1]
		switch {
		case m > 1 && m >= k.PanelMinM:
			p = last
		case p == last:
			p = kernel.MPoints[len(kernel.MPoints)-2]
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// artifacts lists the digests in an arm's evidence.
func artifacts(a measure.Arm) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.Evidence)) {
		d := a.Evidence[name]
		if !strings.HasPrefix(name, knobEvidence) && name != "repeat" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// telling keeps of a receipt the calls of kernels that tell the arms of a phase apart, whose artifacts
// are given.
func telling(artifacts [][]string, calls map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for _, ds := range artifacts {
		for _, d := range ds {
			if calls[d] > 0 {
				out[d] = calls[d]
			}
		}
	}
	return out
}
