package session

import (
	"context"
	"math"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
)

// Noise compares the two ways to compare kernels on this machine: in situ, candidates in different
// layers of one step, and arm by run, one candidate in all layers, runs taking turns. Each gets the
// same time. All ratios are of the whole decode step.
type Noise struct {
	Seconds float64    `json:"seconds"` // that each way got
	InSitu  Spread     `json:"in_situ"` // of the default against itself
	ByRun   Spread     `json:"by_run"`
	Class   string     `json:"class"` // whose configurations are ranked
	Share   float64    `json:"share"` // of the step that the class takes
	Ranked  []Rank     `json:"ranked"`
	Waits   Waiting    `json:"waits"` // in situ, by how long workers waited
	Runs    []RunNoise `json:"runs"`  // of a prompt, by length
	// Decided is the number of pairs of configurations that both ways tell apart, Agree of those the
	// number that they order alike, Within the number of configurations whose two gains agree within
	// their intervals.
	Decided int `json:"decided"`
	Agree   int `json:"agree"`
	Within  int `json:"within"`
}

// Spread is the noise of paired log-ratios.
type Spread struct {
	Pairs int     `json:"pairs"`
	SD    float64 `json:"sd"`   // of one pair
	Half  float64 `json:"half"` // half the 95% interval of the estimate from all pairs
}

// Rank is a configuration's log-gain over the default, measured in both ways.
type Rank struct {
	Config kernel.Config `json:"config"`
	InSitu gain          `json:"in_situ"` // as what it makes of the whole step
	Whole  gain          `json:"whole"`
}

type gain struct {
	Center float64 `json:"center"`
	Half   float64 `json:"half"`
	log    []float64
}

const (
	noiseRun     = 16 // steps of a run of one arm
	noiseConfigs = 5  // ranked, beside the default
)

// MeasureNoise loads the model of o and measures for about six times the time given. busy keeps a core busy
// until it is stopped.
func MeasureNoise(ctx context.Context, o Options, each time.Duration, busy func() (stop func(), err error)) (Noise, error) {
	n := Noise{Seconds: each.Seconds()}
	t := newTune(o)
	defer t.lab.close()
	var err error
	if t.classes, err = o.Target.Model.Classes(o.Target.Numerics); err != nil {
		return n, err
	}
	r, err := t.lab.runner(ctx)
	if err != nil {
		return n, err
	}
	if err := t.rates(ctx, r); err != nil {
		return n, err
	}
	s := &noiseStudy{t: t, a: t.newArena(stages[0], t.now().Add(time.Hour)), share: map[string]float64{}}
	if err := s.prepare(ctx); err != nil {
		return n, err
	}
	if n.ByRun, err = s.byRuns(ctx, each); err != nil {
		return n, err
	}
	if err = s.waiting(ctx, each, busy, &n); err != nil {
		return n, err
	}
	if n.Runs, err = s.runs(ctx, r, each); err != nil {
		return n, err
	}
	return n, s.rank(ctx, each, &n)
}

func gainOf(log []float64) gain {
	ci := stat.CI(log, 0.95)
	return gain{ci.Center, ci.Half(), log}
}

// compare counts what the two ways agree on.
func (n *Noise) compare() {
	order := func(a, b []float64) int {
		d := make([]float64, min(len(a), len(b)))
		for i := range d {
			d[i] = a[i] - b[i]
		}
		switch ci := stat.CI(d, 0.95); {
		case ci.Lo > 0:
			return 1
		case ci.Hi < 0:
			return -1
		}
		return 0
	}
	for i, x := range n.Ranked {
		if math.Abs(x.InSitu.Center-x.Whole.Center) <= x.InSitu.Half+x.Whole.Half {
			n.Within++
		}
		for _, y := range n.Ranked[i+1:] {
			in, whole := order(x.InSitu.log, y.InSitu.log), order(x.Whole.log, y.Whole.log)
			if in != 0 && whole != 0 {
				n.Decided++
				if in == whole {
					n.Agree++
				}
			}
		}
	}
}
