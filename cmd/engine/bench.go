package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	rows                     []string // patterns of rows of the suite
}

// suiteReps are the repetitions of a row of the suite unless -r says otherwise.
const suiteReps = 2

func benchCmd(s *cli.Shared) *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{
		Use: "bench", Short: "Measure prefill and decode beside what the machine can do", Args: cli.NoArgs,
		Long: `Measure pp (prefill of -p tokens) and tg (-n single decode steps, after a context of -d tokens) with
llama-bench's meaning. Between repetitions the read ceiling is measured over the packed weights
themselves, and the arithmetic peaks in registers; shares are of the median of those. What lies deeper
than 512 tokens of a context is copied from the first ones: the steps after it cost the same.

--suite measures, for w4a8 and w4a16, on all threads and on one: tg128, pp512, pp512 with every weight
in groups of 32, and the matrix products alone for 1, 4 and 16 rows; and tg128 at depth 4096 over that
at 128, the cost of a parallel region, the load time, and the memory that was needed for a while only.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd, s, f) },
	}
	fs := c.Flags()
	f.Register(fs, true)
	fs.IntVarP(&f.prompt, "n-prompt", "p", 512, "tokens of the prefill; 0 leaves it out")
	fs.IntVarP(&f.gen, "n-gen", "n", 128, "decode steps; 0 leaves them out")
	fs.IntVarP(&f.depth, "n-depth", "d", 0, "context before the decode steps")
	fs.IntVarP(&f.reps, "repetitions", "r", 5, "repetitions")
	fs.BoolVar(&f.suite, "suite", false, "every row of the standard table, each beside its ceiling")
	fs.StringSliceVar(&f.rows, "rows", nil, "only these rows of the suite, by name or pattern: w4a8/tg128/t1,w4a16/*")
	return c
}

func (f *benchFlags) tests() ([]bench.Test, error) {
	if f.prompt < 0 || f.gen < 0 || f.depth < 0 || f.reps < 1 {
		return nil, cli.Usagef("-p, -n and -d must not be negative, -r at least 1")
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

// checkFits refuses a workload that the model's context does not hold.
func checkFits(t bench.Test, l *app.Loaded) error {
	if have := l.Engine.Options().Context; t.Context() > have {
		return cli.Usagef("%s needs a context of %d positions, %s has %d", t, t.Context(), l.Model.Spec.Name, have)
	}
	return nil
}

func runBench(cmd *cobra.Command, s *cli.Shared, f *benchFlags) error {
	peak := bench.StartPeak()
	defer peak.Stop()
	rep := &benchReport{Schema: 1}
	measure := runTests
	if f.suite || len(f.rows) > 0 {
		measure = runSuite
		if !cmd.Flags().Changed("repetitions") {
			f.reps = suiteReps
		}
	}
	if err := measure(cmd.Context(), s, f, rep, peak); err != nil {
		return err
	}
	rep.Ceilings = medianCeilings(rep.seen)
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rep)
	}
	return rep.print(cmd)
}

// runTests measures the workloads that the flags describe, on one engine.
func runTests(ctx context.Context, s *cli.Shared, f *benchFlags, rep *benchReport, peak *bench.Peak) error {
	tests, err := f.tests()
	if err != nil {
		return err
	}
	for _, t := range tests {
		f.MinContext = max(f.MinContext, t.Context())
	}
	r, err := newBenchRun(ctx, s, f, peak)
	if err != nil {
		return err
	}
	defer r.close()
	for _, t := range tests {
		if err := checkFits(t, r.l); err != nil {
			return err
		}
	}
	defer app.LockHost()() // not before: wrong usage disturbs nobody
	if err := r.readMemory(ctx); err != nil {
		return err
	}
	for _, t := range tests {
		res, _, err := r.test(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		rep.Results = append(rep.Results, res)
	}
	rep.Host, rep.seen = r.host(), r.seen
	return nil
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

// benchRun measures on one loaded engine.
type benchRun struct {
	l       *app.Loaded
	f       *benchFlags
	b       *bench.Bench
	prober  *bench.Prober
	seen    []bench.Ceilings
	results []benchResult

	sampler       *bench.Peak // runs since the process started; nil if this is not its first engine
	settled, peak int64       // see readMemory
}

func newBenchRun(ctx context.Context, s *cli.Shared, f *benchFlags, peak *bench.Peak) (*benchRun, error) {
	l, err := app.Load(ctx, s, &f.ModelFlags, nil)
	if err != nil {
		return nil, err
	}
	l.Say(s)
	r := &benchRun{l: l, f: f, sampler: peak}
	if r.b, err = bench.New(l.Engine); err != nil {
		l.Close()
		return nil, err
	}
	return r, nil
}

func (r *benchRun) close() {
	r.b.Close()
	r.l.Close()
}

func (r *benchRun) host() benchHost {
	return benchHost{r.l.Host.Digest(), r.l.Host.CPU.Name, len(r.l.Host.CPUs)}
}

// readMemory fills the context as pp512 and tg128 do, and reads what stays resident and what the most
// was before. It comes before the first reading of the ceilings, whose code takes memory too.
func (r *benchRun) readMemory(ctx context.Context) (err error) {
	for _, t := range []bench.Test{bench.PP512, {Gen: 128, Depth: 512}} {
		if checkFits(t, r.l) != nil {
			continue
		}
		if _, err := r.b.Run(ctx, t); err != nil {
			return err
		}
	}
	r.settled, err = bench.Settled()
	r.peak = r.sampler.Stop()
	return err
}

// between calls f r.f.reps times and reads the ceilings before, between and after; it returns their
// medians.
func (r *benchRun) between(ctx context.Context, f func() error) (bench.Ceilings, error) {
	if r.prober == nil {
		p, err := newProber(ctx, r.l)
		if err != nil {
			return bench.Ceilings{}, err
		}
		r.prober = p
	}
	k := r.l.Engine.Options().Knobs
	var cs []bench.Ceilings
	for i := 0; ; i++ {
		c, err := r.prober.Measure(k.ThreadsDecode, k.ThreadsPrefill)
		if err != nil {
			return c, err
		}
		cs = append(cs, c)
		if i == r.f.reps {
			break
		}
		if err := f(); err != nil {
			return c, err
		}
	}
	r.seen = append(r.seen, cs...)
	return medianCeilings(cs), nil
}

// test runs the repetitions of a workload between readings of the ceilings.
func (r *benchRun) test(ctx context.Context, t bench.Test) (benchResult, bench.Ceilings, error) {
	warm := t
	warm.Gen = min(t.Gen, 8)
	if _, err := r.b.Run(ctx, warm); err != nil {
		return benchResult{}, bench.Ceilings{}, err
	}
	r.l.Engine.ResetReceipts()
	var rates []float64
	c, err := r.between(ctx, func() error {
		sec, err := r.b.Run(ctx, t)
		rates = append(rates, float64(t.Tokens())/sec)
		return err
	})
	if err != nil {
		return benchResult{}, c, err
	}
	return r.result(t, rates, c), c, nil
}

// result makes the rates of a workload, measured between readings of the ceilings c, a result.
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
