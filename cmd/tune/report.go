package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/session"
)

func reportCmd(s *cli.Shared) *cobra.Command {
	var html string
	c := &cobra.Command{
		Use: "report", Short: "Print what the last tune saw and decided", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, when, err := loadReport(s.CacheDir)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if html != "" {
				page, err := r.html(when)
				if err != nil {
					return err
				}
				if html == "-" {
					_, err := w.Write(page)
					return err
				}
				if err := renameio.WriteFile(html, page, 0o644); err != nil {
					return err
				}
			}
			if s.JSON {
				return r.writeJSON(w)
			}
			if err := r.writeText(w); err != nil {
				return err
			}
			return r.writeDetails(w)
		},
	}
	c.Flags().StringVar(&html, "html", "", "also write a page with pictures (- for stdout, instead)")
	return c
}

// loadReport reads what the last tune saved, and when it did.
func loadReport(dir string) (*report, time.Time, error) {
	file := filepath.Join(dir, lastTune)
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, time.Time{}, fmt.Errorf("no tune was run with --cache-dir %s: run tune --host-profile", dir)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	r := &report{}
	if err := json.NewDecoder(io.LimitReader(f, 64<<20)).Decode(r); err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w: tune again", file, err)
	}
	if r.Schema != 1 || r.Host == nil {
		return nil, time.Time{}, fmt.Errorf("%s: schema %d, this build reads 1: tune again", file, r.Schema)
	}
	return r.whole(), fi.ModTime(), nil
}

// whole fills in what reports of older builds lack.
func (r *report) whole() *report {
	r.Judged = r.judged()
	if r.Floors == nil {
		r.Floors = map[string]measure.Floor{}
	}
	for i := range r.Judged {
		if r.Judged[i].Floors == nil {
			r.Judged[i].Floors = map[string]measure.Floor{}
		}
	}
	for i := range r.Verdicts {
		if r.Verdicts[i].Config == nil {
			r.Verdicts[i].Config = kernel.Config{}
		}
	}
	r.Verdicts, r.Failures = nonNil(r.Verdicts), nonNil(r.Failures)
	return r
}

// writeDetails prints every verdict and failure, which the summary leaves out.
func (r *report) writeDetails(w io.Writer) error {
	if r.Busy {
		fmt.Fprintln(w, "measured with --allow-busy: other programs were at work, the numbers are not trusted")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nPHASE\tWEIGHTS\tWHAT\tRATIO\t95%\tDECISION\tWHY")
	for _, v := range r.Verdicts {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Phase, v.Weights, v.Problem, ratioText(v.Ratio.Median), interval(v.Ratio), v.Decision, v.Why)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(r.Failures) == 0 {
		return nil
	}
	fmt.Fprintln(tw, "\nFAILED\tBACKEND\tCONFIG\tDETAIL")
	for _, f := range r.Failures {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.200q\n", f.Class, f.Backend, f.Config, f.Detail)
	}
	return tw.Flush()
}

func ratioText(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	return fmt.Sprintf("%.3f", x)
}

// interval is empty of numbers when a bound is unknown: a log-ratio without bound is 0 or infinite.
func interval(r measure.Ratio) string {
	if !bounded(r) {
		return "-"
	}
	return fmt.Sprintf("[%.3f, %.3f]", r.Lo, r.Hi)
}

func bounded(r measure.Ratio) bool {
	return r.Lo > 0 && !math.IsInf(r.Hi, 0) && !math.IsNaN(r.Lo) && !math.IsNaN(r.Hi)
}

// whole tells the verdicts of a whole phase, in tok/s, from those of a class of weights.
func whole(v session.Verdict) bool { return v.Problem == "whole" }
