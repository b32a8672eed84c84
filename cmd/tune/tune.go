package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/runner"
)

// tuneFlags are those of the main job.
type tuneFlags struct {
	app.ModelFlags
	hostProfile bool
	budget      time.Duration
	objective   []string
	weights     []string
	dryRun      bool
	allowBusy   bool
	seed        uint64
}

// Budgets when none is given.
const (
	budgetBare = 150 * time.Second // with compilation apart, under 3 minutes
	budgetFull = 240 * time.Second // for each arithmetic
)

func tuneRoot(root *cobra.Command, s *cli.Shared) {
	f := &tuneFlags{}
	root.Long = `With --host-profile: profile this machine, tune it on a model, and keep the winners for the engine.
Without --model or --preset it tunes on the preset ` + model.DefaultPreset + `, which helps every model of the same formats.`
	fs := root.Flags()
	fs.BoolVar(&f.hostProfile, "host-profile", false, "profile this machine and tune it: the main job")
	fs.StringVar(&f.Model, "model", "", "GGUF file to tune for")
	fs.StringVar(&f.Preset, "preset", "", "published shape with random weights to tune on: "+strings.Join(model.Presets(), ", "))
	fs.DurationVar(&f.budget, "budget", 0, "wall-clock time (default 150s; 240s for each arithmetic with --model or --preset)")
	fs.StringSliceVar(&f.weights, "weights", []string{string(model.W4A8)}, "arithmetics to tune: w4a8, w4a16")
	fs.StringSliceVar(&f.objective, "objective", []string{"decode", "prefill"}, "what to tune for")
	fs.StringVar(&f.Requant, "requant", "", "as for engine: requantise 4-bit weights to g32, g64 or g128")
	fs.IntVar(&f.Context, "ctx", 0, "positions of context that the engine will use (default 4096)")
	fs.IntVarP(&f.Threads, "threads", "t", 0, "threads (default: one for each usable core)")
	fs.StringVar(&f.ISA, "isa", "", "add or remove CPU features: +avx512_bf16,-avx512f")
	fs.BoolVar(&f.dryRun, "dry-run", false, "say what would be tuned, and stop")
	fs.BoolVar(&f.allowBusy, "allow-busy", false, "on a busy or noisy machine, label the results instead of refusing")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the search")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !f.hostProfile {
			return cli.Usagef("nothing to do: give --host-profile, or a command")
		}
		return tuneHost(cmd, s, f)
	}
}

func (f *tuneFlags) check() ([]model.Numerics, error) {
	if len(f.objective) == 0 || len(f.weights) == 0 {
		return nil, cli.Usagef("--objective and --weights want at least one value")
	}
	if f.Model == "" && f.Preset == "" {
		f.Preset = model.DefaultPreset
		if f.budget == 0 {
			f.budget = budgetBare
		}
	}
	if f.budget == 0 {
		f.budget = time.Duration(len(f.weights)) * budgetFull
	}
	if f.budget < 10*time.Second {
		return nil, cli.Usagef("--budget %v: want at least 10s", f.budget)
	}
	for _, o := range f.objective {
		if o != "decode" && o != "prefill" {
			return nil, cli.Usagef("--objective %q: want decode, prefill or both", o)
		}
	}
	var out []model.Numerics
	for _, w := range f.weights {
		f.Weights = w
		n, err := f.Numerics()
		if err != nil {
			return nil, err
		}
		if n.Weights == model.F32 {
			return nil, cli.Usagef("--weights f32 is the reference arithmetic: there is nothing to tune")
		}
		out = append(out, n)
	}
	return out, nil
}

func (f *tuneFlags) knobs(h *app.Host) kernel.Knobs {
	n := len(h.CPUs)
	if f.Threads > 0 {
		n = f.Threads
	}
	return h.Knobs(n)
}

func absolute(r runner.Ref) runner.Ref {
	if r.Path != "" {
		if p, err := filepath.Abs(r.Path); err == nil {
			r.Path = p
		}
	}
	return r
}
