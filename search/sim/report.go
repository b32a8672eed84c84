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

// Tuners lists what is compared: every strategy under the same plan, exhaustive search without a
// limit, and the naive best of three.
func Tuners() []Tuner {
	var out []Tuner
	for _, s := range search.Strategies() {
		out = append(out, Tuner{s.Name, func(h *Host, l *Landscape, p Plan, seed uint64) Outcome {
			st, err := s.New(l.Space, seed)
			if err != nil {
				return Outcome{Refused: true}
			}
			return Tune(h, l, st, p)
		}})
	}
	return append(out, Tuner{"exhaustive, no limit", func(h *Host, l *Landscape, p Plan, _ uint64) Outcome {
		s, err := search.NewExhaustive(l.Space, 3)
		if err != nil {
			return Outcome{Refused: true}
		}
		p.Steps = 4*len(l.Members)*3/search.DefaultBatch + 100
		return Tune(h, l, s, p)
	}}, Tuner{"best of 3", BestOf3})
}

// Scenario is a host and a kind of landscape.
type Scenario struct {
	Noise        Noise
	Kind         string
	Family       Family
	Spread, Rank float64 // of NewLandscape
	Seed         uint64  // of the first landscape
	Plan         Plan
}

// Scenarios are the plans on all hosts with four kinds of landscape: spreads of 2 and 7 with a
// mediocre default, one whose default is the best, and one where nothing matters (0.5%).
func Scenarios() []Scenario {
	var out []Scenario
	for _, p := range []Plan{DecodePlan, PrefillPlan} {
		for _, n := range []Noise{Quiet, Cloud, Rough} {
			out = append(out, Scenario{n, "2x", Smooth, 2, 0.4, 0, p}, Scenario{n, "7x", Smooth, 7, 0.4, 0, p},
				Scenario{n, "default best", Smooth, 4, 0, 0, p}, Scenario{n, "flat", Smooth, 1.005, 0.5, 0, p})
		}
	}
	return out
}

// Line summarises the tunes of one tuner, in one scenario or over all. Shares are of the tunes, all
// else are means; the regrets are of the tunes that were not refused.
type Line struct {
	Tuner, Plan, Host, Kind    string
	Tunes                      int
	Winners, False, Refused    float64
	Regret                     float64 // against the best of the space
	Search, Selection, Refusal float64 // its parts
	RegretP95                  float64
	Samples, Tried             float64
}

// Landscapes draws n landscapes of a scenario; scenarios of one kind share them.
func Landscapes(sc Scenario, n int) []*Landscape {
	out := make([]*Landscape, n)
	each(n, func(i int) { out[i] = NewLandscape(sc.Family, sc.Seed+uint64(i), sc.Spread, sc.Rank) })
	return out
}

// Run simulates one tune of each landscape of a scenario.
func Run(t Tuner, sc Scenario, ls []*Landscape) Line {
	outs := make([]Outcome, len(ls))
	each(len(ls), func(i int) { outs[i] = t.Tune(NewHost(sc.Noise, sc.Seed+uint64(i)), ls[i], sc.Plan, sc.Seed+uint64(i)) })
	return summarise(Line{Tuner: t.Name, Plan: sc.Plan.Name, Host: sc.Noise.Name, Kind: sc.Kind}, outs)
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
	mean := func(of func(Outcome) float64, judged bool) float64 {
		var xs []float64
		for _, o := range outs {
			if !judged || !o.Refused {
				xs = append(xs, of(o))
			}
		}
		if len(xs) == 0 {
			return 0
		}
		return stat.Mean(xs)
	}
	for _, o := range outs {
		if !o.Refused {
			regrets = append(regrets, o.Regret)
		}
	}
	l.Tunes = len(outs)
	l.Winners = mean(func(o Outcome) float64 { return share(o.Switched) }, false)
	l.False = mean(func(o Outcome) float64 { return share(o.False) }, false)
	l.Refused = mean(func(o Outcome) float64 { return share(o.Refused) }, false)
	l.Samples = mean(func(o Outcome) float64 { return float64(o.Samples) }, false)
	l.Tried = mean(func(o Outcome) float64 { return float64(o.Tried) }, true)
	l.Regret = mean(func(o Outcome) float64 { return o.Regret }, true)
	l.Search = mean(func(o Outcome) float64 { return o.Search }, true)
	l.Selection = mean(func(o Outcome) float64 { return o.Selection }, true)
	l.Refusal = mean(func(o Outcome) float64 { return o.Refusal }, true)
	if len(regrets) > 0 {
		l.RegretP95 = stat.Quantile(regrets, 0.95)
	}
	return l
}

func share(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Report simulates n tunes of every tuner in every scenario.
func Report(n int, tuners []Tuner, scenarios []Scenario) []Line {
	kinds := map[string][]*Landscape{}
	for _, sc := range scenarios {
		if kinds[sc.Kind] == nil {
			kinds[sc.Kind] = Landscapes(sc, n)
		}
	}
	var out []Line
	for _, t := range tuners {
		for _, sc := range scenarios {
			out = append(out, Run(t, sc, kinds[sc.Kind]))
		}
	}
	return out
}

// Total merges the lines of each tuner that keep lets pass, in order of appearance, weighting
// scenarios equally; name is what the total is of.
func Total(lines []Line, name string, keep func(Line) bool) []Line {
	var out []Line
	count := map[string]float64{}
	at := map[string]int{}
	for _, l := range lines {
		if !keep(l) {
			continue
		}
		i, ok := at[l.Tuner]
		if !ok {
			i, at[l.Tuner] = len(out), len(out)
			out = append(out, Line{Tuner: l.Tuner, Plan: name, Host: "-", Kind: "-"})
		}
		k := count[l.Tuner]
		o := &out[i]
		for _, x := range []struct {
			to *float64
			v  float64
		}{{&o.Winners, l.Winners}, {&o.False, l.False}, {&o.Refused, l.Refused}, {&o.Regret, l.Regret}, {&o.Search, l.Search},
			{&o.Selection, l.Selection}, {&o.Refusal, l.Refusal}, {&o.Samples, l.Samples}, {&o.Tried, l.Tried}} {
			*x.to = (*x.to*k + x.v) / (k + 1)
		}
		o.Tunes += l.Tunes
		o.RegretP95 = max(o.RegretP95, l.RegretP95)
		count[l.Tuner]++
	}
	return out
}

// Totals are the totals over all scenarios, over those of each host, and of each phase on it.
func Totals(lines []Line) []Line {
	out := Total(lines, "all", func(Line) bool { return true })
	for _, n := range []Noise{Quiet, Cloud, Rough} {
		out = append(out, Total(lines, n.Name, func(l Line) bool { return l.Host == n.Name })...)
		for _, p := range []Plan{DecodePlan, PrefillPlan} {
			out = append(out, Total(lines, n.Name+" "+p.Name, func(l Line) bool { return l.Host == n.Name && l.Plan == p.Name })...)
		}
	}
	return out
}

// Table prints lines as aligned text. Regrets are in percent; a total's p95 is its worst scenario's.
func Table(lines []Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-21s %-13s %-6s %-14s %6s %8s %7s %8s %8s = %7s + %7s + %7s %8s %8s %6s\n", "tuner", "plan", "host", "landscape",
		"tunes", "winners", "false", "refused", "regret", "search", "select", "refusal", "p95", "samples", "tried")
	for _, l := range lines {
		fmt.Fprintf(&b, "%-21s %-13s %-6s %-14s %6d %7.1f%% %6.2f%% %7.1f%% %7.2f%%   %6.2f%%   %6.2f%%   %6.2f%% %7.2f%% %8.0f %6.0f\n",
			l.Tuner, l.Plan, l.Host, l.Kind, l.Tunes, 100*l.Winners, 100*l.False, 100*l.Refused, 100*l.Regret,
			100*l.Search, 100*l.Selection, 100*l.Refusal, 100*l.RegretP95, l.Samples, l.Tried)
	}
	return b.String()
}
