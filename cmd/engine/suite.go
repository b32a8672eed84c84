package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/bench"
)

// suiteRow is one row of `engine bench --suite`: what was measured, and beside it what the machine
// could do at best.
type suiteRow struct {
	Row     string  `json:"row"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Reached float64 `json:"reached,omitempty"`    // in the ceiling's unit
	Ceiling float64 `json:"ceiling,omitempty"`    // 0: there is none
	Of      string  `json:"ceiling_of,omitempty"` // read GB/s, peak GMAC/s, bytes
	Share   float64 `json:"share,omitempty"`

	PeakShare float64 `json:"peak_share,omitempty"` // of linear rows: Value of the arithmetic peak
}

// suiteSpec is a row to measure. Rows of one group share a loaded engine.
type suiteSpec struct {
	name    string
	group   suiteGroup
	threads int
	measure func(r *benchRun, ctx context.Context) (suiteRow, error)
}

type suiteGroup struct{ weights, requant string }

// suiteSpecs lists all rows for a number of threads, in the order of measuring.
func suiteSpecs(threads int) []suiteSpec {
	var out []suiteSpec
	add := func(g suiteGroup, what string, threads int, f func(*benchRun, context.Context) (suiteRow, error)) {
		name := fmt.Sprintf("%s/%s/t%d", g.weights, what, threads)
		out = append(out, suiteSpec{name, g, threads, f})
	}
	counts := []int{threads}
	if threads > 1 {
		counts = append(counts, 1)
	}
	for _, w := range []string{"w4a8", "w4a16"} {
		g, g32 := suiteGroup{weights: w}, suiteGroup{w, "g32"}
		add(g, "load", threads, (*benchRun).rowLoad)
		add(g, "transient", threads, (*benchRun).rowTransient)
		add(g, "region", threads, (*benchRun).rowRegion)
		for _, n := range counts {
			add(g, "tg128", n, rowTest(bench.TG128))
			for _, m := range []int{1, 4, 16} {
				add(g, fmt.Sprintf("linear-m%d", m), n, rowLinear(m))
			}
			add(g, "pp512", n, rowTest(bench.PP512))
		}
		add(g, "tg128@d4096:d128", threads, (*benchRun).rowDepth)
		for _, n := range counts {
			add(g32, "pp512-g32", n, rowTest(bench.PP512))
		}
	}
	return out
}

// matching are the rows whose names match any of the patterns; none means all.
func matching(specs []suiteSpec, patterns []string) ([]suiteSpec, error) {
	if len(patterns) == 0 {
		return specs, nil
	}
	used := map[string]bool{}
	var out []suiteSpec
	for _, s := range specs {
		for _, p := range patterns {
			ok, err := path.Match(p, s.name)
			if err != nil {
				return nil, cli.Usagef("--rows %q: %v", p, err)
			}
			if ok {
				used[p] = true
				if !slices.ContainsFunc(out, func(o suiteSpec) bool { return o.name == s.name }) {
					out = append(out, s)
				}
			}
		}
	}
	for _, p := range patterns {
		if !used[p] {
			return nil, cli.Usagef("--rows %q: no such row (there are: %s)", p, rowNames(specs))
		}
	}
	return out, nil
}

func rowNames(specs []suiteSpec) (names []string) {
	for _, s := range specs {
		names = append(names, s.name)
	}
	return names
}

// runSuite measures the chosen rows, one engine after another.
func runSuite(ctx context.Context, s *cli.Shared, f *benchFlags, rep *benchReport, peak *bench.Peak) error {
	h, err := app.NewHost(ctx, f.ISA)
	if err != nil {
		return err
	}
	threads := len(h.CPUs)
	if f.Threads > 0 {
		threads = f.Threads
	}
	specs, err := matching(suiteSpecs(threads), f.rows)
	if err != nil {
		return err
	}
	release := func() {}
	defer func() { release() }()
	for len(specs) > 0 {
		n := slices.IndexFunc(specs, func(x suiteSpec) bool { return x.group != specs[0].group })
		if n < 0 {
			n = len(specs)
		}
		g := *f
		g.Weights, g.Requant = specs[0].group.weights, specs[0].group.requant
		if g.Requant == "" {
			g.Requant = f.Requant
		}
		g.MinContext = depthTest.Context()
		r, err := newBenchRun(ctx, s, &g, peak)
		if err != nil {
			return err
		}
		if rep.Host == (benchHost{}) {
			rep.Host, release = r.host(), app.LockHost()
		}
		err = r.suite(ctx, specs[:n], rep)
		rep.seen = append(rep.seen, r.seen...)
		r.close()
		if err != nil {
			return err
		}
		specs, peak = specs[n:], nil
	}
	return nil
}

// suite measures rows on one engine. A row that the model's context does not hold is left out.
func (r *benchRun) suite(ctx context.Context, specs []suiteSpec, rep *benchReport) error {
	all := r.l.Engine.Options().Knobs
	for _, x := range specs {
		k := all
		k.ThreadsDecode, k.ThreadsPrefill = min(k.ThreadsDecode, x.threads), min(k.ThreadsPrefill, x.threads)
		if err := r.l.Engine.SetKnobs(k); err != nil {
			return err
		}
		row, err := x.measure(r, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if row.Unit == "" {
			fmt.Fprintf(os.Stderr, "tilewright: left out: %s\n", x.name)
			continue
		}
		row.Row, row.Share = x.name, share(row.Reached, row.Ceiling)
		rep.Rows = append(rep.Rows, row)
	}
	rep.Results = append(rep.Results, r.results...)
	return r.l.Engine.SetKnobs(all)
}
