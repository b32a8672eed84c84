package session

import (
	"log/slog"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/preflight"
)

// Blocks says how many of the blocks that a stage measured counted. The others failed, or were disturbed
// and dropped whatever they held.
type Blocks struct {
	Stage string `json:"stage"`
	Kept  int    `json:"kept"`
	Of    int    `json:"of"`
	Why   string `json:"why,omitempty"` // of the block dropped last
	// Waits are how far the workers of in-situ blocks were kept from their CPUs.
	Waits *Waits `json:"waits,omitempty"`
}

// Waits are quantiles of preflight.Wait over blocks, shares of a block.
type Waits struct {
	By     string  `json:"by"` // how they are known, "unknown" where the kernel does not say
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Most   float64 `json:"most"`
	shares []float64
}

func (w *Waits) add(x preflight.Wait) {
	w.By = x.By
	if x.By == "" {
		w.By = "unknown"
	}
	w.shares = append(w.shares, x.Share)
}

// settle computes the quantiles: once, since a long tune of a small model has very many steps.
func (w *Waits) settle() {
	w.Median, w.P90, w.Most = stat.Median(w.shares), stat.Quantile(w.shares, 0.9), slices.Max(w.shares)
}

// result is what the tune has come to.
func (t *tune) result() Result {
	for _, b := range t.res.Blocks {
		if b.Waits != nil {
			b.Waits.settle()
		}
	}
	t.res.Failures = append(t.res.Failures, outlivedSince(t.Suite, t.deaths)...)
	t.deaths = outlived(t.Suite)
	return t.res
}

// tallied is a watch that counts by stage.
type tallied struct {
	Watch
	stage string
	busy  bool // a busy machine is labelled, not refused
	told  bool // that the scheduler says little
	res   *Result
}

// Disturbed ends a block and counts it.
func (w *tallied) Disturbed(mark any) string { return w.count(w.Watch.Disturbed(mark)) }

// Kept ends an in-situ block: too short for the ticks that the watch sees others in, so how long its
// workers were kept from their CPUs counts too.
func (w *tallied) Kept(mark any, x preflight.Wait) string {
	if x.By != preflight.BySched && !w.told {
		w.told = true
		slog.Warn("the kernel does not say how long threads wait for a CPU: who disturbs short blocks is seen less well", "by", x.By)
	}
	why := w.Watch.Disturbed(mark)
	if why == "" && !w.busy {
		why = x.Why()
	}
	why = w.count(why)
	b := &w.res.Blocks[len(w.res.Blocks)-1]
	if b.Waits == nil {
		b.Waits = &Waits{}
	}
	b.Waits.add(x)
	return why
}

// Failed ends a block that came to nothing for another reason than a disturbance: it does not count either.
func (w *tallied) Failed(why error) { w.count("failed: " + why.Error()) }

func (w *tallied) count(why string) string {
	bs := w.res.Blocks
	if n := len(bs); n == 0 || bs[n-1].Stage != w.stage {
		bs = append(bs, Blocks{Stage: w.stage})
	}
	b := &bs[len(bs)-1]
	b.Of++
	if why == "" {
		b.Kept++
	} else {
		b.Why = why
	}
	w.res.Blocks = bs
	return why
}
