package sim

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
)

// Tuner is a way to tune that the report compares.
type Tuner struct {
	Name string
	Tune func(*Host, *Landscape, Plan, uint64) Outcome
}

// DefaultTuner is the strategy that won in simulation: see testdata/report.txt.
const DefaultTuner = "tpe"

// Tuners lists what is compared: every strategy under the same plan, exhaustive search without a
// limit, and the naive best of three.
func Tuners() []Tuner {
	by := func(name string, make func(l *Landscape, p Plan, seed uint64) (search.Strategy, error)) Tuner {
		return Tuner{name, func(h *Host, l *Landscape, p Plan, seed uint64) Outcome {
			s, err := make(l, p, seed)
			if err != nil {
				return Outcome{Refused: true}
			}
			return Tune(h, l, s, p)
		}}
	}
	return []Tuner{
		by("halving", func(l *Landscape, p Plan, seed uint64) (search.Strategy, error) {
			return search.NewHalving(l.Space, seed, 96, 1000, 1)
		}),
		by("tpe", func(l *Landscape, p Plan, seed uint64) (search.Strategy, error) {
			return search.NewDefault(l.Space, seed, p.Screen)
		}),
		by("descent", func(l *Landscape, p Plan, seed uint64) (search.Strategy, error) {
			return search.NewDescent(l.Space, seed, 1000, 1)
		}),
		by("random", func(l *Landscape, p Plan, seed uint64) (search.Strategy, error) {
			return search.NewRandom(l.Space, seed, p.Screen, 3)
		}),
		by("exhaustive", func(l *Landscape, p Plan, _ uint64) (search.Strategy, error) {
			return search.NewExhaustive(l.Space, 3)
		}),
		{"exhaustive, no limit", func(h *Host, l *Landscape, p Plan, _ uint64) Outcome {
			s, err := search.NewExhaustive(l.Space, 3)
			if err != nil {
				return Outcome{Refused: true}
			}
			p.Screen = 1 << 30
			return Tune(h, l, s, p)
		}},
		{"best of 3", BestOf3},
	}
}

// Scenario is a host and a kind of landscape.
type Scenario struct {
	Noise        Noise
	Kind         string
	Spread, Rank float64 // of NewLandscape
}

// Scenarios are all hosts with four kinds of landscape: spreads of 2 and 7 with a mediocre default,
// one whose default is the best, and one where nothing matters (0.5%).
func Scenarios() []Scenario {
	var out []Scenario
	for _, n := range []Noise{Quiet, Cloud, Rough} {
		out = append(out, Scenario{n, "2x", 2, 0.4}, Scenario{n, "7x", 7, 0.4},
			Scenario{n, "default best", 4, 0}, Scenario{n, "flat", 1.005, 0.5})
	}
	return out
}

// Line summarises the tunes of one tuner, in one scenario or over all.
type Line struct {
	Tuner, Host, Kind string
	Tunes             int
	Winners, False    float64 // shares of the tunes
	Refused           float64
	Regret, RegretP95 float64 // against the best of the space
	RegretSeen        float64 // mean against the best measured
	Samples           float64 // mean
}

// Landscapes draws n landscapes of a scenario; scenarios of one kind share them.
func Landscapes(sc Scenario, n int) []*Landscape {
	out := make([]*Landscape, n)
	each(n, func(i int) { out[i] = NewLandscape(uint64(i), sc.Spread, sc.Rank) })
	return out
}

// Run simulates one tune of each landscape of a scenario.
func Run(t Tuner, sc Scenario, p Plan, ls []*Landscape) Line {
	outs := make([]Outcome, len(ls))
	each(len(ls), func(i int) { outs[i] = t.Tune(NewHost(sc.Noise, uint64(i)), ls[i], p, uint64(i)) })
	return summarise(Line{Tuner: t.Name, Host: sc.Noise.Name, Kind: sc.Kind}, outs)
}

// each calls f for 0..n-1 on every CPU.
func each(n int, f func(int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

func summarise(l Line, outs []Outcome) Line {
	var regrets []float64
	for _, o := range outs {
		l.Tunes++
		l.Winners += share(o.Switched)
		l.False += share(o.False)
		l.Refused += share(o.Refused)
		l.RegretSeen += o.RegretSeen
		l.Samples += float64(o.Samples)
		regrets = append(regrets, o.Regret)
	}
	n := float64(l.Tunes)
	l.Winners, l.False, l.Refused, l.RegretSeen, l.Samples = l.Winners/n, l.False/n, l.Refused/n, l.RegretSeen/n, l.Samples/n
	l.Regret, l.RegretP95 = stat.Mean(regrets), stat.Quantile(regrets, 0.95)
	return l
}

func share(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Report simulates n tunes of every tuner in every scenario.
func Report(p Plan, n int, tuners []Tuner, scenarios []Scenario) []Line {
	kinds := map[string][]*Landscape{}
	for _, sc := range scenarios {
		if kinds[sc.Kind] == nil {
			kinds[sc.Kind] = Landscapes(sc, n)
		}
	}
	var out []Line
	for _, t := range tuners {
		for _, sc := range scenarios {
			out = append(out, Run(t, sc, p, kinds[sc.Kind]))
		}
	}
	return out
}

// Total merges the lines of each tuner, in order of appearance, weighting scenarios equally.
func Total(lines []Line) []Line {
	var out []Line
	count := map[string]float64{}
	at := map[string]int{}
	for _, l := range lines {
		i, ok := at[l.Tuner]
		if !ok {
			i, at[l.Tuner] = len(out), len(out)
			out = append(out, Line{Tuner: l.Tuner, Host: "all", Kind: "all"})
		}
		k := count[l.Tuner]
		blend := func(old, x float64) float64 { return (old*k + x) / (k + 1) }
		o := &out[i]
		o.Tunes += l.Tunes
		o.Winners, o.False, o.Refused = blend(o.Winners, l.Winners), blend(o.False, l.False), blend(o.Refused, l.Refused)
		o.Regret, o.RegretSeen = blend(o.Regret, l.Regret), blend(o.RegretSeen, l.RegretSeen)
		o.RegretP95, o.Samples = max(o.RegretP95, l.RegretP95), blend(o.Samples, l.Samples)
		count[l.Tuner]++
	}
	return out
}

// Table prints lines as aligned text. Regrets are in percent; the total's p95 is its worst scenario's.
func Table(lines []Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-21s %-6s %-13s %6s %8s %7s %8s %8s %8s %8s %8s\n", "tuner", "host", "landscape",
		"tunes", "winners", "false", "refused", "regret", "p95", "of seen", "samples")
	for _, l := range lines {
		fmt.Fprintf(&b, "%-21s %-6s %-13s %6d %7.1f%% %6.2f%% %7.1f%% %7.2f%% %7.2f%% %7.2f%% %8.0f\n", l.Tuner, l.Host, l.Kind,
			l.Tunes, 100*l.Winners, 100*l.False, 100*l.Refused, 100*l.Regret, 100*l.RegretP95, 100*l.RegretSeen, l.Samples)
	}
	return b.String()
}
