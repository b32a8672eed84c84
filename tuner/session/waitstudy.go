package session

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/runner"
)

// Kept is what is left of in-situ pairs of the default against itself when those are dropped in which a
// worker waited for more than a share of a block (preflight.MaxWait).
type Kept struct {
	Share float64 `json:"share"` // 1: nothing is dropped
	Kept  int     `json:"kept"`
	Of    int     `json:"of"`
	SD    float64 `json:"sd"`   // of a pair that is kept
	Half  float64 `json:"half"` // half the 95% interval of the estimate from those that are kept
	Off   float64 `json:"off"`  // the estimate: the truth is 0
}

// Waiting is the noise of in-situ pairs by threshold, on the machine as it is and with a core kept busy.
type Waiting struct {
	Idle   []Kept `json:"idle"`
	Bursts []Kept `json:"bursts"`
}

// thresholds that are compared.
var thresholds = []float64{0.02, 0.05, 0.10, 0.20, 1}

// waited is an in-situ pair, and the longer wait of its two blocks.
type waited struct{ log, wait float64 }

// waiting measures in situ, idle and busy. What it finds idle is the noise of in-situ trials.
func (s *noiseStudy) waiting(ctx context.Context, each time.Duration, busy func() (func(), error), n *Noise) (err error) {
	if n.Waits.Idle, err = s.waits(ctx, each); err != nil {
		return err
	}
	all := n.Waits.Idle[len(thresholds)-1]
	n.InSitu = Spread{Pairs: all.Kept, SD: all.SD, Half: all.Half}
	stop, err := busy()
	if err != nil {
		return err
	}
	defer stop()
	n.Waits.Bursts, err = s.waits(ctx, each)
	return err
}

// waits collects pairs until the time is up.
func (s *noiseStudy) waits(ctx context.Context, each time.Duration) ([]Kept, error) {
	var all []waited
	for end := s.t.now().Add(each); s.t.now().Before(end); {
		x, wait, err := s.inSitu(ctx, len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, waited{x, wait})
	}
	return keptBelow(all), nil
}

// keptBelow sorts pairs by the thresholds.
func keptBelow(all []waited) []Kept {
	var out []Kept
	for _, share := range thresholds {
		var logs []float64
		for _, x := range all {
			if x.wait <= share {
				logs = append(logs, x.log)
			}
		}
		k := Kept{Share: share, Kept: len(logs), Of: len(all)}
		if len(logs) >= stat.MinPairs { // else nothing is known
			ci := stat.CI(logs, 0.95)
			k.SD, k.Half, k.Off = stat.SD(logs), ci.Half(), ci.Center
		}
		out = append(out, k)
	}
	return out
}

// RunNoise is the noise of neighbouring runs of a prompt by their length, all from one series of passes:
// the deviation of their paired log-ratios (the root of 2 times the Allan deviation of the series). Where
// it falls with the root of the length, the noise of passes is white; where it stays, it is not.
type RunNoise struct {
	Tokens int     `json:"tokens"`
	Pairs  int     `json:"pairs"`
	SD     float64 `json:"sd"`
}

// runPass is the length of the passes of the series.
const runPass = 64

// runs measures a series of passes until the time is up.
func (s *noiseStudy) runs(ctx context.Context, r process, each time.Duration) ([]RunNoise, error) {
	var seconds []float64
	for end := s.t.now().Add(each); s.t.now().Before(end); {
		b, err := r.Bench(ctx, runner.Bench{Test: bench.Test{Prompt: runPass}, Reps: 8}, nil)
		if err != nil {
			return nil, err
		}
		for _, rate := range b.Rates {
			seconds = append(seconds, runPass/rate)
		}
	}
	return runNoise(seconds[min(8, len(seconds)):]), nil // the first passes fetch kernels
}

// runNoise is the noise by length, in steps of two, as far as three pairs go.
func runNoise(seconds []float64) []RunNoise {
	var out []RunNoise
	for n := 1; len(seconds)/(2*n) >= stat.MinPairs; n *= 2 {
		var logs []float64
		for pair := range slices.Chunk(seconds, 2*n) {
			if len(pair) == 2*n {
				logs = append(logs, math.Log(sum(pair[n:])/sum(pair[:n])))
			}
		}
		out = append(out, RunNoise{n * runPass, len(logs), stat.SD(logs)})
	}
	return out
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}
