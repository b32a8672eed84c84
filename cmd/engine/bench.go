package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/bench"
)

type benchFlags struct {
	app.ModelFlags
	prompt, gen, depth, reps int
	suite                    bool
}

func benchCmd(s *cli.Shared) *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{
		Use: "bench", Short: "Measure prefill and decode beside what the machine can do", Args: cli.NoArgs,
		Long: `Measure pp (prefill of -p tokens) and tg (-n single decode steps, after a context of -d tokens) with
llama-bench's meaning. Between repetitions the read ceiling is measured over the packed weights
themselves, and the arithmetic peaks in registers; shares are of the median of those.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd, s, f) },
	}
	fs := c.Flags()
	f.Register(fs, true)
	fs.IntVarP(&f.prompt, "n-prompt", "p", 512, "tokens of the prefill; 0 leaves it out")
	fs.IntVarP(&f.gen, "n-gen", "n", 128, "decode steps; 0 leaves them out")
	fs.IntVarP(&f.depth, "n-depth", "d", 0, "context before the decode steps")
	fs.IntVarP(&f.reps, "repetitions", "r", 5, "repetitions")
	fs.BoolVar(&f.suite, "suite", false, "every standard workload: pp512, tg128, tg128@d128, tg128@d4096")
	return c
}

func (f *benchFlags) tests() ([]bench.Test, error) {
	if f.prompt < 0 || f.gen < 0 || f.depth < 0 || f.reps < 1 {
		return nil, cli.Usagef("-p, -n and -d must not be negative, -r at least 1")
	}
	if f.suite {
		return []bench.Test{bench.PP512, bench.TG128, {Gen: 128, Depth: 128}, {Gen: 128, Depth: 4096}}, nil
	}
	var ts []bench.Test
	if f.prompt > 0 {
		ts = append(ts, bench.Test{Prompt: f.prompt})
	}
	if f.gen > 0 {
		ts = append(ts, bench.Test{Gen: f.gen, Depth: f.depth})
	}
	if len(ts) == 0 {
		return nil, cli.Usagef("nothing to measure: -p and -n are both 0")
	}
	return ts, nil
}

// fitting leaves out, and says so, what of the suite the model's context does not hold; a workload that
// was asked for is refused.
func (f *benchFlags) fitting(tests []bench.Test, l *app.Loaded) ([]bench.Test, error) {
	var fit []bench.Test
	for _, t := range tests {
		err := checkFits(t, l)
		if err == nil {
			fit = append(fit, t)
		} else if !f.suite {
			return nil, err
		} else {
			fmt.Fprintf(os.Stderr, "tilewright: left out: %v\n", err)
		}
	}
	if len(fit) == 0 {
		return nil, errors.New("the model's context holds no workload of the suite")
	}
	return fit, nil
}

func checkFits(t bench.Test, l *app.Loaded) error {
	if have := l.Engine.Options().Context; t.Context() > have {
		return cli.Usagef("%s needs a context of %d positions, %s has %d", t, t.Context(), l.Model.Spec.Name, have)
	}
	return nil
}

func runBench(cmd *cobra.Command, s *cli.Shared, f *benchFlags) error {
	peak := bench.StartPeak()
	tests, err := f.tests()
	if err != nil {
		return err
	}
	for _, t := range tests {
		f.MinContext = max(f.MinContext, t.Context())
	}
	l, err := app.Load(cmd.Context(), s, &f.ModelFlags, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	l.Say(s)
	if tests, err = f.fitting(tests, l); err != nil {
		return err
	}
	defer app.LockHost()() // not before: wrong usage disturbs nobody
	r := &benchRun{l: l, f: f}
	if r.b, err = bench.New(l.Engine); err != nil {
		return err
	}
	defer r.b.Close()
	settled, err := r.memory(cmd.Context())
	if err != nil {
		return err
	}
	r.settled, r.peak = settled, peak.Stop()
	if r.probe, err = newProber(cmd.Context(), l); err != nil {
		return err
	}
	rep := &benchReport{Schema: 1, Host: benchHost{l.Host.Digest(), l.Host.CPU.Name, len(l.Host.CPUs)}}
	for _, t := range tests {
		res, err := r.test(cmd.Context(), t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		rep.Results = append(rep.Results, res)
	}
	rep.Ceilings = r.ceilings()
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rep)
	}
	return rep.print(cmd)
}

// newProber emits the probes of the ceilings.
func newProber(ctx context.Context, l *app.Loaded) (*bench.Prober, error) {
	suite, err := l.Backends.Suite(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Backends.Close()
	return bench.NewProber(ctx, l.Engine, suite)
}

type benchRun struct {
	l             *app.Loaded
	f             *benchFlags
	b             *bench.Bench
	probe         *bench.Prober
	seen          []bench.Ceilings
	settled, peak int64
}

// memory fills the context as pp512 and tg128 do, and reads what stays resident.
func (r *benchRun) memory(ctx context.Context) (int64, error) {
	for _, t := range []bench.Test{bench.PP512, {Gen: 128, Depth: 512}} {
		if t.Context() > r.l.Engine.Options().Context {
			continue
		}
		if _, err := r.b.Run(ctx, t); err != nil {
			return 0, err
		}
	}
	return bench.Settled()
}

// test runs the repetitions of a workload between readings of the ceilings.
func (r *benchRun) test(ctx context.Context, t bench.Test) (benchResult, error) {
	k, e := r.l.Engine.Options().Knobs, r.l.Engine
	warm := t
	warm.Gen = min(t.Gen, 8)
	if _, err := r.b.Run(ctx, warm); err != nil {
		return benchResult{}, err
	}
	e.ResetReceipts()
	var cs []bench.Ceilings
	reading := func() error {
		c, err := r.probe.Measure(k.ThreadsDecode, k.ThreadsPrefill)
		cs = append(cs, c)
		return err
	}
	if err := reading(); err != nil {
		return benchResult{}, err
	}
	var rates []float64
	for range r.f.reps {
		sec, err := r.b.Run(ctx, t)
		if err != nil {
			return benchResult{}, err
		}
		rates = append(rates, float64(t.Tokens())/sec)
		if err := reading(); err != nil {
			return benchResult{}, err
		}
	}
	r.seen = append(r.seen, cs...)
	return r.result(t, rates, medianCeilings(cs)), nil
}

func (r *benchRun) result(t bench.Test, rates []float64, c bench.Ceilings) benchResult {
	e, st, k := r.l.Engine, r.l.Engine.Stats(), r.l.Engine.Options().Knobs
	threads := k.ThreadsDecode
	if t.Gen == 0 {
		threads = k.ThreadsPrefill
	}
	sorted := slices.Sorted(slices.Values(rates))
	avg, sd := meanSD(rates)
	res := benchResult{Test: t, Name: t.String(), Threads: threads, ModelType: r.l.Model.Spec.Name, ModelSize: st.WeightsBytes,
		Weights: string(r.l.Numerics.Weights), Avg: avg, SD: sd, Samples: rates, Median: medianOf(sorted),
		Min: sorted[0], Max: sorted[len(sorted)-1], BytesPerToken: st.BytesPerToken,
		Tuning: string(r.l.Plan.Tuning), Tuned: r.l.Tuned(), RssSettled: r.settled, RssPeak: r.peak,
		WeightsBytes: st.WeightsBytes, LoadS: st.Seconds, Artifacts: map[string]int64{}}
	if t.Gen > 0 {
		res.GBs = res.Median * float64(st.BytesPerToken) / 1e9
		res.ReadShare = share(res.GBs, c.ReadGBs)
	}
	res.GMACs = res.Median * float64(st.MACsPerToken) / 1e9
	res.PeakShare = share(res.GMACs, c.Peak(r.l.Numerics.Weights.Arith()))
	for _, x := range e.Receipts() {
		res.Artifacts[x.Digest] += x.Calls
	}
	return res
}
