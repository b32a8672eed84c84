package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/tuner/lock"
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

// benchReport is what `engine bench --json` prints.
type benchReport struct {
	Schema   int            `json:"schema"`
	Host     benchHost      `json:"host"`
	Ceilings bench.Ceilings `json:"ceilings"`
	Results  []benchResult  `json:"results"`
}

type benchHost struct {
	Digest  string `json:"digest"`
	CPU     string `json:"cpu"`
	Threads int    `json:"threads_allowed"`
}

type benchResult struct {
	bench.Test
	Name          string           `json:"test"`
	Threads       int              `json:"n_threads"`
	ModelType     string           `json:"model_type"`
	ModelSize     int              `json:"model_size"`
	Weights       string           `json:"weights"`
	Avg           float64          `json:"avg_ts"`
	SD            float64          `json:"stddev_ts"`
	Samples       []float64        `json:"samples_ts"`
	Median        float64          `json:"median_ts"`
	Min           float64          `json:"min_ts"`
	Max           float64          `json:"max_ts"`
	GBs           float64          `json:"gbs"`
	ReadShare     float64          `json:"read_share"`
	GMACs         float64          `json:"gmacs"`
	PeakShare     float64          `json:"peak_share"`
	BytesPerToken int              `json:"bytes_per_token"`
	Tuning        string           `json:"tuning"`
	Tuned         bool             `json:"tuned"`
	RssSettled    int64            `json:"rss_anon_settled"`
	RssPeak       int64            `json:"rss_anon_peak"`
	WeightsBytes  int              `json:"weights_bytes"`
	LoadS         float64          `json:"load_s"`
	Artifacts     map[string]int64 `json:"artifacts"`
}

func runBench(cmd *cobra.Command, s *cli.Shared, f *benchFlags) error {
	peak := bench.StartPeak()
	tests, err := f.tests()
	if err != nil {
		return err
	}
	need := 0
	for _, t := range tests {
		need = max(need, t.Context())
	}
	if f.Context == 0 && need > 4096 {
		f.Context = need
	}
	if l, err := lock.Acquire(); err != nil {
		slog.Warn("measuring beside another measurement", "why", err)
	} else {
		defer l.Release()
	}
	l, err := app.Load(cmd.Context(), s, &f.ModelFlags, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	l.Say(s)
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
	suite, err := l.Backends.Suite(cmd.Context())
	if err != nil {
		return err
	}
	if r.probe, err = bench.NewProber(cmd.Context(), l.Engine, suite); err != nil {
		return err
	}
	l.Backends.Close()
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

func share(x, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return x / of
}

func meanSD(xs []float64) (mean, sd float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		sd += (x - mean) * (x - mean)
	}
	if len(xs) < 2 {
		return mean, 0
	}
	return mean, math.Sqrt(sd / float64(len(xs)-1))
}

// medianOf is the median of sorted values.
func medianOf(xs []float64) float64 {
	n := len(xs)
	if n == 0 {
		return 0
	}
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

func medianCeilings(cs []bench.Ceilings) bench.Ceilings {
	pick := func(f func(bench.Ceilings) float64) float64 {
		var xs []float64
		for _, c := range cs {
			xs = append(xs, f(c))
		}
		slices.Sort(xs)
		return medianOf(xs)
	}
	return bench.Ceilings{
		ReadGBs:    pick(func(c bench.Ceilings) float64 { return c.ReadGBs }),
		Int8GMACs:  pick(func(c bench.Ceilings) float64 { return c.Int8GMACs }),
		Int16GMACs: pick(func(c bench.Ceilings) float64 { return c.Int16GMACs }),
		FP32GMACs:  pick(func(c bench.Ceilings) float64 { return c.FP32GMACs }),
	}
}

func (r *benchRun) ceilings() bench.Ceilings { return medianCeilings(r.seen) }

func (rep *benchReport) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	c := rep.Ceilings
	fmt.Fprintf(w, "%s, %d cores: read %.1f GB/s, int8 %.0f, int16 %.0f, fp32 %.0f GMAC/s\n", rep.Host.CPU, rep.Host.Threads,
		c.ReadGBs, c.Int8GMACs, c.Int16GMACs, c.FP32GMACs)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TEST\tWEIGHTS\tTHREADS\tMEDIAN tok/s\tMIN\tMAX\tGB/s\tOF READ\tGMAC/s\tOF PEAK\tTUNING")
	for _, r := range rep.Results {
		gbs, rs := "", ""
		if r.Gen > 0 {
			gbs, rs = fmt.Sprintf("%.1f", r.GBs), fmt.Sprintf("%.0f%%", 100*r.ReadShare)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f\t%s\t%s\t%.0f\t%.0f%%\t%s\n", r.Name, r.Weights, r.Threads, r.Median, r.Min, r.Max,
			gbs, rs, r.GMACs, 100*r.PeakShare, r.Tuning)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	r := rep.Results[0]
	_, err := fmt.Fprintf(w, "weights %.0f MB, RssAnon settled %.0f MB, peak %.0f MB, loaded in %.2f s\n",
		float64(r.WeightsBytes)/1e6, float64(r.RssSettled)/1e6, float64(r.RssPeak)/1e6, r.LoadS)
	return err
}
