package session

import (
	"context"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/preflight"
	"github.com/tilewright/tilewright/tuner/runner"
	"github.com/tilewright/tilewright/tuner/wire"
)

// Step runs an in-situ step: all that it carries runs, as fast as the machine says.
func (p *fakeProcess) Step(ctx context.Context, st runner.Step, arts map[string]*kernel.Artifact, rec *wire.Receipt) (runner.StepTimes, error) {
	h := p.h
	if st.SetOnly {
		return runner.StepTimes{}, ctx.Err()
	}
	h.steps++
	rate, tokens, phase := h.pp, st.Test.Prompt, phasePrefill
	if st.Test.Gen > 0 {
		rate, tokens, phase = h.tg, 1, phaseDecode
	}
	h.pass(float64(max(0, st.Test.Depth-p.pos))/h.pp + h.jam*h.rng.Float64())
	p.pos = st.Test.Context()
	noise := func() float64 { return math.Exp(h.noise[phase] * h.rng.NormFloat64()) }
	pass := float64(tokens) / rate
	h.pass(float64(st.Warm+max(1, st.Repeat)) * pass * noise())
	out, calls := runner.StepTimes{Pass: pass, Wait: preflight.Wait{By: preflight.BySched}}, map[string]int64{}
	for _, plan := range st.Plans {
		var secs []float64
		for _, id := range plan.Artifacts {
			sec := pass / 100 * noise()
			if h.speed != nil {
				sec /= h.speed(arts[id])
			}
			secs = append(secs, sec)
			calls[arts[id].Digest()]++
		}
		out.Layers = append(out.Layers, secs)
	}
	if rec != nil {
		*rec = p.id
		rec.Calls = calls
	}
	if h.each != nil {
		h.each()
	}
	return out, ctx.Err()
}

func (p *fakeProcess) Lay(ctx context.Context, l runner.Lay) error {
	p.h.pass(float64(l.Class.N) * float64(l.Class.K) * float64(max(1, len(l.Class.Layers))) / packRate)
	return ctx.Err()
}

func (p *fakeProcess) Probe(ctx context.Context, _ *kernel.Artifact) error {
	p.h.pass(0.002)
	return ctx.Err()
}

func (p *fakeProcess) SetKnobs(_ context.Context, k kernel.Knobs) error   { p.knobs = k; return nil }
func (p *fakeProcess) Pack(context.Context, runner.Pack) (float64, error) { return 0.01, nil }
func (p *fakeProcess) Expected() wire.Receipt                             { return p.id }
func (p *fakeProcess) Close()                                             {}
