package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/burn"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/tuner/lock"
	"github.com/tilewright/tilewright/tuner/session"
)

// noiseCmd is for developers of the tuner: it shows that what in-situ trials claim of this machine is
// so. It writes nothing.
func noiseCmd(s *cli.Shared) *cobra.Command {
	f := &tuneFlags{objective: []string{"decode"}, weights: []string{string(model.W4A8)}, budget: time.Hour}
	var each time.Duration
	var busy int
	c := &cobra.Command{
		Use: "noise", Short: "Compare the noise of in-situ trials with that of runs that take turns", Args: cli.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := measureNoise(cmd, s, f, each, busy)
			if err != nil {
				return err
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), n)
			}
			return printNoise(cmd.OutOrStdout(), n)
		},
	}
	c.Flags().StringVar(&f.Model, "model", "", "GGUF file")
	c.Flags().StringVar(&f.Preset, "preset", "", "published shape with random weights")
	c.Flags().DurationVar(&each, "each", 15*time.Second, "time for each of six measurements")
	c.Flags().IntVar(&busy, "busy-core", 0, "core that is kept busy in bursts during one of them")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the configurations that are ranked")
	return c
}

func measureNoise(cmd *cobra.Command, s *cli.Shared, f *tuneFlags, each time.Duration, busy int) (session.Noise, error) {
	var none session.Noise
	ns, err := f.check()
	if err != nil {
		return none, err
	}
	ref, err := f.Ref()
	if err != nil {
		return none, err
	}
	m, err := app.OpenModel(ref)
	if err != nil {
		return none, err
	}
	defer m.Close()
	h, err := app.NewHost(cmd.Context(), "")
	if err != nil {
		return none, err
	}
	l, err := lock.Acquire()
	if err != nil {
		return none, fmt.Errorf("%w: %v", cli.ErrRefused, err)
	}
	defer l.Release()
	watch, err := newWatch(h.CPUs, true) // noise is what is measured
	if err != nil {
		return none, err
	}
	b, err := app.NewBackends(cmd.Context(), h, s.PluginDir, s.CacheDir)
	if err != nil {
		return none, err
	}
	defer b.Close()
	suite, err := b.Suite(cmd.Context())
	if err != nil {
		return none, err
	}
	return session.MeasureNoise(cmd.Context(), session.Options{Ref: absolute(ref), Target: app.Target(h, b, m, ns[0], 0, nil), CPUs: h.CPUs,
		Suite: suite, Budget: f.budget, Started: time.Now(), Decode: true, Knobs: f.knobs(h), Watch: watch, Seed: f.seed, Memory: h.Memory.Available},
		each, func() (func(), error) { return burn.Core(busy) })
}

func printNoise(w io.Writer, n session.Noise) error {
	fmt.Fprintf(w, "the default against itself, %.0f s each, ratios of a decode step\n", n.Seconds)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tPAIRS\tSD OF A PAIR\t95% OF ALL, +-")
	for _, x := range []struct {
		name string
		session.Spread
	}{{"in situ", n.InSitu}, {"by run", n.ByRun}} {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\n", x.name, x.Pairs, percent(x.SD), percent(x.Half))
	}
	printWaits(tw, n)
	fmt.Fprintf(tw, "\nconfigurations of %s, %.0f%% of a step, against the default\n", n.Class, 100*n.Share)
	fmt.Fprintln(tw, "IN SITU, AS OF THE STEP\tWHOLE STEPS\tCONFIG")
	for _, r := range n.Ranked {
		fmt.Fprintf(tw, "%s +- %s\t%s +- %s\t%s\n", percent(r.InSitu.Center), percent(r.InSitu.Half), percent(r.Whole.Center), percent(r.Whole.Half), r.Config)
	}
	err := tw.Flush()
	_, e := fmt.Fprintf(w, "%d of %d gains agree within their intervals; of %d pairs that both ways tell apart %d are ordered alike\n",
		n.Within, len(n.Ranked), n.Decided, n.Agree)
	return errors.Join(err, e)
}

// printWaits prints what is left of in-situ pairs by threshold, and the noise of prompts by length.
func printWaits(w io.Writer, n session.Noise) {
	for _, x := range []struct {
		name string
		kept []session.Kept
	}{{"idle", n.Waits.Idle}, {"a core busy in bursts", n.Waits.Bursts}} {
		fmt.Fprintf(w, "\nin situ, %s\nWAIT UP TO\tKEPT\tSD OF A PAIR\t95%% OF ALL, +-\tOFF BY\n", x.name)
		for _, k := range x.kept {
			fmt.Fprintf(w, "%.0f%%\t%d of %d\t%s\t%s\t%s\n", 100*k.Share, k.Kept, k.Of, percent(k.SD), percent(k.Half), percent(k.Off))
		}
	}
	fmt.Fprintln(w, "\nprompts of the default against itself\nTOKENS OF A RUN\tPAIRS\tSD OF A PAIR")
	for _, x := range n.Runs {
		fmt.Fprintf(w, "%d\t%d\t%s\n", x.Tokens, x.Pairs, percent(x.SD))
	}
}

// percent is a log-ratio for people.
func percent(x float64) string { return fmt.Sprintf("%.2f%%", 100*math.Expm1(x)) }
