package resolve

import (
	"fmt"
	"slices"
	"time"

	"github.com/tilewright/tilewright/cache"
)

// SpeedWatch compares the tokens of a run with the evidence of the decision that it runs by. It only
// observes: whatever it finds, the run goes on with what it has.
type SpeedWatch struct {
	rate  float64 // tok/s that the evidence promises
	depth int     // positions up to which tokens compare with it
	seen  int
	took  []float64 // seconds of each token
}

const (
	watchSkip   = 8  // first tokens: caches, page faults, clocks
	watchTokens = 64 // real tokens that are judged by
	// A run is slow when its median token falls short of the evidence by more than machines vary
	// between runs, and its fastest quarter does too: a disturbance of a while spares some tokens.
	watchMedian = 0.75
	watchBest   = 0.85
)

// newSpeedWatch returns nil, which observes nothing, for a decision without evidence of decode.
func newSpeedWatch(es []cache.Evidence) *SpeedWatch {
	for _, e := range es {
		rate := e.Default
		if e.Decision == "winner" {
			rate = e.Winner
		}
		if e.Phase == "decode" && rate > 0 {
			return &SpeedWatch{rate: rate, depth: max(1024, 2*e.Depth)}
		}
	}
	return nil
}

// Token takes the time of one decoded token at a position of the context.
func (w *SpeedWatch) Token(pos int, d time.Duration) {
	if w == nil || pos > w.depth || len(w.took) == watchTokens || d <= 0 {
		return
	}
	if w.seen++; w.seen > watchSkip {
		w.took = append(w.took, d.Seconds())
	}
}

// Slow says how the run fell short of the evidence, "" if it did not or too few tokens were seen.
func (w *SpeedWatch) Slow() string {
	if w == nil || len(w.took) < watchTokens {
		return ""
	}
	took := slices.Sorted(slices.Values(w.took))
	median, best := 1/took[len(took)/2], 1/took[len(took)/4]
	if median >= watchMedian*w.rate || best >= watchBest*w.rate {
		return ""
	}
	return fmt.Sprintf("%d tokens at %.1f tok/s, where %.1f was measured", len(took), median, w.rate)
}
