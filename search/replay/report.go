package replay

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
)

// Plan is how a replayed search spends its steps: those of package sim.
type Plan struct {
	Steps, Layers int
	Keep          float64 // share of the steps for the race of the finalists
}

// Line summarises the replays of one strategy. Regret is ln(cost of the pick / least recorded cost),
type Line struct {
	Recording, Strategy string
	Replays             int
	Gain, Best          float64 // mean log-speedup of the pick over the default; the best there is
	Regret, P95         float64
	Samples             float64
}

// Report replays a recording n times through every strategy.
func Report(name string, rec *Recording, p Plan, n int) ([]Line, error) {
	truth, err := NewSource(rec, 0, 1, 0)
	if err != nil {
		return nil, err
	}
	best := 0.0
	if err := search.Enumerate(rec.Space, func(c kernel.Config) bool {
		if s, ok := truth.Score(c); ok {
			best = max(best, s)
		}
		return true
	}); err != nil {
		return nil, err
	}
	var out []Line
	for _, st := range search.Strategies() {
		gains := make([]float64, n)
		samples, errs := make([]float64, n), make([]error, n)
		var wg sync.WaitGroup
		turn := make(chan struct{}, runtime.GOMAXPROCS(0))
		for i := range n {
			turn <- struct{}{}
			wg.Go(func() {
				gains[i], samples[i], errs[i] = once(rec, truth, st, p, uint64(i))
				<-turn
			})
		}
		wg.Wait()
		l := Line{Recording: name, Strategy: st.Name, Replays: n, Best: best, Gain: stat.Mean(gains), Samples: stat.Mean(samples)}
		var regrets []float64
		for i, g := range gains {
			if errs[i] != nil {
				return nil, errs[i]
			}
			regrets = append(regrets, best-g)
		}
		l.Regret, l.P95 = stat.Mean(regrets), stat.Quantile(regrets, 0.95)
		out = append(out, l)
	}
	return out, nil
}

// once is one replay: the recorded gain of what it picked, and the samples it took.
func once(rec *Recording, truth *Source, st search.Named, p Plan, seed uint64) (gain, samples float64, err error) {
	s, err := st.New(rec.Space, seed)
	if err != nil {
		return 0, 0, err
	}
	src := truth.Again(p.Steps, p.Layers, seed)
	pick, err := search.Pick(s, rec.Control, src, search.RunOptions{Batch: search.Batch(s, p.Steps, p.Layers), Left: src.Left, Keep: p.Keep,
		Race: search.RaceOptions{Seed: seed}})
	if err != nil {
		return 0, 0, err
	}
	samples = float64((p.Steps - src.Steps) * p.Layers)
	if pick != nil {
		gain, _ = truth.Score(pick.Config)
	}
	return gain, samples, nil
}

// Table prints lines as aligned text.
func Table(lines []Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-11s %8s %9s %9s %8s %8s %8s\n", "recording", "strategy", "replays", "picked", "best", "regret", "p95", "samples")
	for _, l := range lines {
		fmt.Fprintf(&b, "%-10s %-11s %8d %8.3fx %8.3fx %7.2f%% %7.2f%% %8.0f\n", l.Recording, l.Strategy, l.Replays,
			math.Exp(l.Gain), math.Exp(l.Best), 100*l.Regret, 100*l.P95, l.Samples)
	}
	return b.String()
}
