package session

import (
	"log/slog"
	"slices"

	"github.com/tilewright/tilewright/tuner/measure"
)

// hand gives the judge of a phase what a pair says about it, with what the receipts must show: the
// process, the nonce, and the linear kernels of the arm, no other's.
func (t *tune) hand(g *judged, pair int, d duel) {
	shown := make([][]string, len(g.arms))
	for i, a := range g.arms {
		shown[i] = artifacts(a)
	}
	for i, v := range d.Visits {
		if v.Crash != nil {
			g.judge.Fail(measure.Failure{Arm: g.arms[i].Name, Block: pair, Class: "crash", Signal: v.Crash.Reason, Stderr: v.Crash.Stderr})
			continue
		}
		for _, s := range v.Samples {
			k := slices.IndexFunc(g.arms, func(a measure.Arm) bool { return a.Name == s.Planted })
			if s.Planted == "" {
				k = i
			}
			if s.Phase != g.phase || k < 0 {
				continue
			}
			arm := g.arms[k]
			if k < len(g.traces) {
				g.traces[k].add(g.phase, s.Rec)
			}
			rec := measure.Receipt{Nonce: s.Rec.Nonce, PID: s.Rec.PID, Start: int64(s.Rec.Start), Exe: s.Rec.Exe,
				Calls: telling(shown, s.Rec.Calls), Bytes: s.Rec.Bytes}
			want := measure.Expect{Nonce: s.Want.Nonce, PID: s.Want.PID, Start: int64(s.Want.Start), Exe: s.Want.Exe, Artifacts: shown[k]}
			if err := g.judge.Add(measure.Sample{Arm: arm.Name, Block: pair, Turn: s.Turn, Metric: g.metric.Name, Value: s.Rate, Work: s.Work, Receipt: rec}, want); err != nil {
				slog.Warn("sample refused", "why", err)
			}
		}
	}
	if why := d.Disturbed[g.phase]; why != "" {
		g.judge.Disturb(pair, why)
	}
}

// carries reports whether a pair says something about the planted arms.
func (d duel) carries() bool {
	return d.Planted && d.Disturbed[phaseDecode] == "" && d.Visits[0].Crash == nil && d.Visits[1].Crash == nil
}
