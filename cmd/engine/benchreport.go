package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/engine/bench"
)

// benchReport is what `engine bench --json` prints.
type benchReport struct {
	Schema   int            `json:"schema"`
	Host     benchHost      `json:"host"`
	Ceilings bench.Ceilings `json:"ceilings"`
	Results  []benchResult  `json:"results"`
	Rows     []suiteRow     `json:"rows,omitempty"` // of --suite

	seen []bench.Ceilings
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

func (rep *benchReport) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	c := rep.Ceilings
	fmt.Fprintf(w, "%s, %d cores: read %.1f GB/s, int8 %.0f, int16 %.0f, fp32 %.0f GMAC/s\n", rep.Host.CPU, rep.Host.Threads,
		c.ReadGBs, c.Int8GMACs, c.Int16GMACs, c.FP32GMACs)
	if len(rep.Rows) > 0 {
		return printRows(w, rep.Rows)
	}
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

func printRows(w io.Writer, rows []suiteRow) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ROW\tVALUE\tREACHED\tCEILING\tSHARE\tOF PEAK")
	for _, r := range rows {
		reached, ceiling, part, peak := "", "", "", ""
		if r.Ceiling > 0 {
			reached, ceiling, part = fmt.Sprintf("%.4g", r.Reached), fmt.Sprintf("%.4g %s", r.Ceiling, r.Of), fmt.Sprintf("%.0f%%", 100*r.Share)
		}
		if r.PeakShare > 0 {
			peak = fmt.Sprintf("%.0f%%", 100*r.PeakShare)
		}
		fmt.Fprintf(tw, "%s\t%.4g %s\t%s\t%s\t%s\t%s\n", r.Row, r.Value, r.Unit, reached, ceiling, part, peak)
	}
	return tw.Flush()
}
