package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (rep *profileReport) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s, %s, tuning %s, read ceiling %.1f GB/s\n", rep.Model, rep.Weights, rep.Tuning, rep.ReadGBs)
	for _, x := range []struct {
		name string
		p    *phaseTimes
	}{{fmt.Sprintf("decode step at %d", rep.PromptLen), &rep.Decode}, {fmt.Sprintf("prefill of %d", rep.PromptLen), &rep.Prefill}} {
		if err := x.p.print(w, x.name); err != nil {
			return err
		}
	}
	return nil
}

func (p *phaseTimes) print(w io.Writer, name string) error {
	fmt.Fprintf(w, "\n%s: %.3f ms on %d threads, %.1f%% not linear\n", name, 1e3*p.Seconds, p.Threads, 100*p.NonLinear)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "OP\tCALLS\tms\tSHARE\tWAIT ms\tGB/s\tGMAC/s\t")
	for _, t := range p.Ops {
		fmt.Fprintf(tw, "%s\t%.0f\t%.3f\t%.1f%%\t%.3f\t%s\t%s\t\n", t.Op, t.Calls, 1e3*t.Seconds, 100*t.Share, 1e3*t.Wait,
			unlessZero(t.GBs), unlessZero(t.GMACs))
	}
	fmt.Fprintf(tw, "waits\t\t%.3f\t%.1f%%\t\t\t\t\n", 1e3*p.Wait, 100*share(p.Wait, p.Seconds))
	fmt.Fprintf(tw, "unattributed\t\t%.3f\t%.1f%%\t\t\t\t\n", 1e3*p.Unseen, 100*share(p.Unseen, p.Seconds))
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%.0f regions, %.2f us each when empty: %.3f ms\n", p.Regions, p.RegionUS, 1e-3*p.Regions*p.RegionUS)
	return err
}

func unlessZero(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", x)
}
