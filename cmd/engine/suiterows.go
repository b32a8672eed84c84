package main

import (
	"context"
	"slices"

	"github.com/tilewright/tilewright/engine/bench"
)

// depthTest is the deep half of the row that compares depths, with shallowTest.
var depthTest, shallowTest = bench.Test{Gen: 128, Depth: 4096}, bench.Test{Gen: 128, Depth: 128}

// rowTest measures a workload between readings of the ceilings, the read ceiling for decode and the
// arithmetic peak for a prefill.
func rowTest(t bench.Test) func(*benchRun, context.Context) (suiteRow, error) {
	return func(r *benchRun, ctx context.Context) (suiteRow, error) {
		if checkFits(t, r.l) != nil {
			return suiteRow{}, nil
		}
		res, c, err := r.test(ctx, t)
		if err != nil {
			return suiteRow{}, err
		}
		r.results = append(r.results, res)
		row := suiteRow{Value: res.Median, Unit: "tok/s"}
		if t.Gen > 0 {
			row.Reached, row.Ceiling, row.Of = res.GBs, c.ReadGBs, "read GB/s"
		} else {
			row.Reached, row.Ceiling, row.Of = res.GMACs, c.Peak(r.l.Numerics.Weights.Arith()), "peak GMAC/s"
		}
		return row, nil
	}
}

// rowLinear measures the matrix products of a pass over m rows alone: against the read ceiling, and
// the best of several passes, since there is little to a pass.
func rowLinear(m int) func(*benchRun, context.Context) (suiteRow, error) {
	return func(r *benchRun, ctx context.Context) (suiteRow, error) {
		e, st := r.l.Engine, r.l.Engine.Stats()
		var secs []float64
		c, err := r.between(ctx, func() error {
			for range 3 {
				sec, err := e.ProbeLinear(ctx, m)
				if err != nil {
					return err
				}
				secs = append(secs, sec)
			}
			return nil
		})
		if err != nil {
			return suiteRow{}, err
		}
		slices.Sort(secs)
		sec := medianOf(secs)
		macs := int64(0)
		for _, x := range e.Regions() {
			macs += x.MACs
		}
		gbs := float64(st.BytesPerToken) / sec / 1e9
		row := suiteRow{Value: float64(m) * float64(macs) / sec / 1e9, Unit: "GMAC/s", Reached: gbs, Ceiling: c.ReadGBs, Of: "read GB/s"}
		row.PeakShare = share(row.Value, c.Peak(r.l.Numerics.Weights.Arith()))
		return row, nil
	}
}

// rowDepth compares decode at two depths, in turns that change places, and takes the median of the turns'
// ratios, so that what drifts for longer than a turn cancels. The ceiling is the ratio of the bytes to be
// read.
func (r *benchRun) rowDepth(ctx context.Context) (suiteRow, error) {
	if checkFits(depthTest, r.l) != nil {
		return suiteRow{}, nil
	}
	rates, ratios := map[bench.Test][]float64{}, []float64(nil)
	turn := []bench.Test{shallowTest, depthTest}
	last := func(t bench.Test) float64 { return rates[t][len(rates[t])-1] }
	c, err := r.between(ctx, func() error {
		for _, t := range turn {
			sec, err := r.b.Run(ctx, t)
			if err != nil {
				return err
			}
			rates[t] = append(rates[t], float64(t.Tokens())/sec)
		}
		ratios = append(ratios, last(depthTest)/last(shallowTest))
		slices.Reverse(turn)
		return nil
	})
	if err != nil {
		return suiteRow{}, err
	}
	for _, t := range []bench.Test{shallowTest, depthTest} {
		r.results = append(r.results, r.result(t, rates[t], c))
	}
	e, w := r.l.Engine, float64(r.l.Engine.Stats().BytesPerToken)
	bytes := func(t bench.Test) float64 { return w + float64(e.KVBytes(t.Depth+t.Gen/2)) }
	slices.Sort(ratios)
	ratio := medianOf(ratios)
	return suiteRow{Value: ratio, Unit: "ratio", Reached: ratio, Ceiling: bytes(shallowTest) / bytes(depthTest), Of: "bytes"}, nil
}

// rowRegion is the cost of an empty region of all workers.
func (r *benchRun) rowRegion(context.Context) (suiteRow, error) {
	sec, err := r.l.Engine.ProbeRegion(r.l.Engine.Options().Knobs.ThreadsDecode)
	return suiteRow{Value: 1e6 * sec, Unit: "us"}, err
}

// rowLoad is the time from the open model to the first token, beside that of reading what was packed.
func (r *benchRun) rowLoad(ctx context.Context) (suiteRow, error) {
	c, err := r.between(ctx, func() error { return nil })
	st := r.l.Engine.Stats()
	packed := float64(st.WeightsBytes) / 1e9
	return suiteRow{Value: st.Seconds, Unit: "s", Reached: packed / st.Seconds, Ceiling: c.ReadGBs, Of: "read GB/s"}, err
}

// rowTransient is the memory at its peak, from the start of the process on, above what stays.
func (r *benchRun) rowTransient(ctx context.Context) (suiteRow, error) {
	if r.sampler == nil {
		return suiteRow{}, nil // of the first engine only
	}
	if err := r.readMemory(ctx); err != nil {
		return suiteRow{}, err
	}
	return suiteRow{Value: float64(r.peak-r.settled) / 1e6, Unit: "MB"}, nil
}
