package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/bench"
)

func profileCmd(s *cli.Shared) *cobra.Command {
	f := &app.ModelFlags{}
	var promptLen, steps int
	c := &cobra.Command{
		Use: "profile", Short: "Time per op of a decode step and of a prefill", Args: cli.NoArgs,
		Long: `Time per op of a decode step and of a prefill. A decode step is measured by difference: a run of a
prefill and steps, less a run of the prefill alone.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if promptLen < 1 || steps < 1 {
				return cli.Usagef("--prompt-len and --steps must be at least 1")
			}
			return profile(cmd, s, f, promptLen, steps)
		},
	}
	f.Register(c.Flags(), true)
	c.Flags().IntVar(&promptLen, "prompt-len", 512, "tokens of the prefill, and context of the decode steps")
	c.Flags().IntVar(&steps, "steps", 32, "decode steps")
	return c
}

// opTimes sums what the engine's observer is told.
type opTimes map[string]*opTime

type opTime struct {
	Op      string  `json:"op"`
	Calls   float64 `json:"calls"`
	Seconds float64 `json:"seconds"`
	GBs     float64 `json:"gbs,omitempty"`
	Share   float64 `json:"share"`
}

func (o opTimes) Region(e engine.Event) {
	t := o[e.Op]
	if t == nil {
		t = &opTime{Op: e.Op}
		o[e.Op] = t
	}
	t.Calls++
	t.Seconds += float64(e.End-e.Start) / 1e9
}

type profileReport struct {
	Schema    int        `json:"schema"`
	Model     string     `json:"model"`
	Weights   string     `json:"weights"`
	Tuning    string     `json:"tuning"`
	PromptLen int        `json:"prompt_len"`
	Decode    phaseTimes `json:"decode"`  // one step
	Prefill   phaseTimes `json:"prefill"` // of PromptLen tokens
}

type phaseTimes struct {
	Seconds   float64   `json:"seconds"`
	Unseen    float64   `json:"unattributed"` // wall time less the ops'
	NonLinear float64   `json:"not_linear"`   // share of the time
	Ops       []*opTime `json:"ops"`
}

var linearOps = map[string]bool{"qkv": true, "o": true, "gate_up": true, "down": true, "head": true}

func profile(cmd *cobra.Command, s *cli.Shared, f *app.ModelFlags, promptLen, steps int) error {
	whole := bench.Test{Gen: steps, Depth: promptLen}
	f.MinContext = whole.Context()
	ops := opTimes{}
	l, err := app.Load(cmd.Context(), s, f, ops)
	if err != nil {
		return err
	}
	defer l.Close()
	l.Say(s)
	if err := checkFits(whole, l); err != nil {
		return err
	}
	b, err := bench.New(l.Engine)
	if err != nil {
		return err
	}
	defer b.Close()
	run := func(gen int) (wall float64, got opTimes, err error) {
		if err = b.Fill(cmd.Context(), 0); err != nil {
			return
		}
		clear(ops)
		if wall, err = b.Run(cmd.Context(), bench.Test{Prompt: promptLen}); err == nil && gen > 0 {
			var sec float64
			sec, err = b.Run(cmd.Context(), bench.Test{Gen: gen, Depth: promptLen})
			wall += sec
		}
		got = opTimes{}
		for k, v := range ops {
			c := *v
			got[k] = &c
		}
		return
	}
	if _, _, err := run(2); err != nil { // warm
		return err
	}
	preWall, pre, err := run(0)
	if err != nil {
		return err
	}
	fullWall, full, err := run(steps)
	if err != nil {
		return err
	}
	step := opTimes{}
	for k, v := range full {
		d := &opTime{Op: k, Calls: v.Calls / float64(steps), Seconds: v.Seconds / float64(steps)}
		if p := pre[k]; p != nil {
			d.Calls, d.Seconds = (v.Calls-p.Calls)/float64(steps), (v.Seconds-p.Seconds)/float64(steps)
		}
		step[k] = d
	}
	addRates(step, l)
	rep := profileReport{Schema: 1, Model: l.Model.Spec.Name, Weights: string(l.Numerics.Weights), Tuning: string(l.Plan.Tuning),
		PromptLen: promptLen, Decode: summarise((fullWall-preWall)/float64(steps), step), Prefill: summarise(preWall, pre)}
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rep)
	}
	return rep.print(cmd)
}

// addRates gives the linear ops of a decode step their GB/s.
func addRates(step opTimes, l *app.Loaded) {
	for op, bytes := range l.Engine.RegionBytes() {
		if t := step[op]; t != nil && t.Seconds > 0 {
			t.GBs = float64(bytes) / t.Seconds / 1e9
		}
	}
}

func summarise(wall float64, ops opTimes) phaseTimes {
	p := phaseTimes{Seconds: wall, Unseen: wall}
	for _, t := range ops {
		t.Share = share(t.Seconds, wall)
		p.Unseen -= t.Seconds
		if !linearOps[t.Op] {
			p.NonLinear += t.Share
		}
		p.Ops = append(p.Ops, t)
	}
	p.NonLinear += share(p.Unseen, wall)
	sort.Slice(p.Ops, func(i, j int) bool { return p.Ops[i].Seconds > p.Ops[j].Seconds })
	return p
}

func (r profileReport) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s, %s, tuning %s\n", r.Model, r.Weights, r.Tuning)
	for _, x := range []struct {
		name string
		p    phaseTimes
	}{{fmt.Sprintf("decode step at %d", r.PromptLen), r.Decode}, {fmt.Sprintf("prefill of %d", r.PromptLen), r.Prefill}} {
		fmt.Fprintf(w, "\n%s: %.3f ms, %.1f%% not linear\n", x.name, 1e3*x.p.Seconds, 100*x.p.NonLinear)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "OP\tCALLS\tms\tSHARE\tGB/s\t")
		for _, t := range x.p.Ops {
			gbs := ""
			if t.GBs > 0 {
				gbs = fmt.Sprintf("%.1f", t.GBs)
			}
			fmt.Fprintf(tw, "%s\t%.0f\t%.3f\t%.1f%%\t%s\t\n", t.Op, t.Calls, 1e3*t.Seconds, 100*t.Share, gbs)
		}
		fmt.Fprintf(tw, "unattributed\t\t%.3f\t%.1f%%\t\t\n", 1e3*x.p.Unseen, 100*share(x.p.Unseen, x.p.Seconds))
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}
