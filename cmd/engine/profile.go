package main

import (
	"context"
	"encoding/json"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/sample"
)

func profileCmd(s *cli.Shared) *cobra.Command {
	f := &app.ModelFlags{}
	var promptLen, steps int
	c := &cobra.Command{
		Use: "profile", Short: "Time per op of a decode step and of a prefill", Args: cli.NoArgs,
		Long: `Time per op of a decode step, greedy sampling included, and of a prefill. One run does the prefill
and the steps; what it had spent at the end of the prefill is the prefill's, the rest the steps'.

ms is the time of the leading worker's own share; WAIT is how long it then waited for the others.
GB/s and GMAC/s are those of all workers, over both: weights of the linear ops, keys and values of
attn. quant:X prepares the input of X: residual and norm before qkv, gate_up and head, the gated
product before down. A region is one fork and join of the workers; its cost is measured empty.`,
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
	Seconds float64 `json:"seconds"` // the leader's own share
	Wait    float64 `json:"wait_s"`  // then for the other workers
	GBs     float64 `json:"gbs,omitempty"`
	GMACs   float64 `json:"gmacs,omitempty"`
	Share   float64 `json:"share"` // of the phase, without the wait
}

func (o opTimes) Region(e engine.Event) {
	op := e.Op
	if e.For != "" {
		op += ":" + e.For
	}
	t := o.op(op)
	t.Calls++
	t.Seconds += float64(e.Done-e.Start) / 1e9
	t.Wait += float64(e.End-e.Done) / 1e9
}

func (o opTimes) op(name string) *opTime {
	t := o[name]
	if t == nil {
		t = &opTime{Op: name}
		o[name] = t
	}
	return t
}

func (o opTimes) clone() opTimes {
	out := opTimes{}
	for k, v := range o {
		c := *v
		out[k] = &c
	}
	return out
}

// since is what was spent after an earlier state, a steps-th of it.
func (o opTimes) since(before opTimes, steps int) opTimes {
	n := float64(steps)
	out := opTimes{}
	for k, v := range o {
		b := before[k]
		if b == nil {
			b = &opTime{}
		}
		if v.Calls > b.Calls {
			out[k] = &opTime{Op: k, Calls: (v.Calls - b.Calls) / n, Seconds: (v.Seconds - b.Seconds) / n, Wait: (v.Wait - b.Wait) / n}
		}
	}
	return out
}

type profileReport struct {
	Schema    int        `json:"schema"`
	Model     string     `json:"model"`
	Weights   string     `json:"weights"`
	Tuning    string     `json:"tuning"`
	PromptLen int        `json:"prompt_len"`
	ReadGBs   float64    `json:"read_gbs"` // read ceiling on the threads of decode
	Decode    phaseTimes `json:"decode"`   // one step
	Prefill   phaseTimes `json:"prefill"`  // of PromptLen tokens
}

type phaseTimes struct {
	Threads   int       `json:"threads"`
	Seconds   float64   `json:"seconds"`
	Wait      float64   `json:"wait_s"`       // sum of the ops' waits
	Unseen    float64   `json:"unattributed"` // wall time less the ops' and the waits
	NonLinear float64   `json:"not_linear"`   // share of the time outside linear ops and the waits for them
	Regions   float64   `json:"regions"`
	RegionUS  float64   `json:"region_us"` // of an empty region on these threads
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
	rep := profileReport{Schema: 1, Model: l.Model.Spec.Name, Weights: string(l.Numerics.Weights), Tuning: string(l.Plan.Tuning), PromptLen: promptLen}
	if err := rep.measure(cmd.Context(), l, ops, steps); err != nil {
		return err
	}
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(rep)
	}
	return rep.print(cmd)
}

// measure does the one run, and reads what is beside it.
func (rep *profileReport) measure(ctx context.Context, l *app.Loaded, ops opTimes, steps int) error {
	b, err := bench.New(l.Engine)
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := newProber(ctx, l)
	if err != nil {
		return err
	}
	next := func(logits []float32) int {
		start := time.Now()
		id := sample.Argmax(logits)
		t := ops.op("sample")
		t.Calls++
		t.Seconds += time.Since(start).Seconds()
		return id
	}
	if _, err := b.Run(ctx, bench.Test{Prompt: min(rep.PromptLen, 64)}); err != nil {
		return err
	}
	if _, err := b.Generate(ctx, min(steps, 4), next); err != nil {
		return err
	}
	if err := b.Fill(ctx, 0); err != nil {
		return err
	}
	clear(ops)
	forks := l.Engine.Forks()
	prefill, err := b.Run(ctx, bench.Test{Prompt: rep.PromptLen})
	if err != nil {
		return err
	}
	before, mid := ops.clone(), l.Engine.Forks()
	decode, err := b.Generate(ctx, steps, next)
	if err != nil {
		return err
	}
	step, end := ops.since(before, steps), l.Engine.Forks()
	addRates(step, l, 1, l.Engine.KVBytes(rep.PromptLen+steps/2))
	addRates(before, l, rep.PromptLen, 0)
	k := l.Engine.Options().Knobs
	c, err := p.Measure(k.ThreadsDecode, k.ThreadsPrefill)
	if err != nil {
		return err
	}
	rep.ReadGBs = c.ReadGBs
	if rep.Decode, err = summarise(l, k.ThreadsDecode, decode/float64(steps), float64(end-mid)/float64(steps), step); err != nil {
		return err
	}
	threads := k.ThreadsPrefill
	if rep.PromptLen == 1 {
		threads = k.ThreadsDecode
	}
	rep.Prefill, err = summarise(l, threads, prefill, float64(mid-forks), before)
	return err
}

// addRates gives the ops of a phase over some rows their rates. A prefill computes the head for one
// row, and reads weights once for each chunk: its rate is one of arithmetic.
func addRates(ops opTimes, l *app.Loaded, rows, kv int) {
	for op, r := range l.Engine.Regions() {
		t := ops[op]
		if t == nil || t.Seconds <= 0 {
			continue
		}
		n, sec := float64(rows), t.Seconds+t.Wait
		if op == "head" {
			n = 1
		}
		t.GMACs = n * float64(r.MACs) / sec / 1e9
		if n == 1 {
			t.GBs = float64(r.Bytes) / sec / 1e9
		}
	}
	if t := ops["attn"]; t != nil && kv > 0 && t.Seconds > 0 {
		t.GBs = float64(kv) / (t.Seconds + t.Wait) / 1e9
	}
}

// summarise orders the ops of a phase and compares their sum with its wall time.
func summarise(l *app.Loaded, threads int, wall, regions float64, ops opTimes) (phaseTimes, error) {
	p := phaseTimes{Threads: threads, Seconds: wall, Unseen: wall, Regions: regions}
	for _, t := range ops {
		t.Share = share(t.Seconds, wall)
		p.Unseen -= t.Seconds + t.Wait
		p.Wait += t.Wait
		if linearOps[t.Op] {
			p.NonLinear -= share(t.Seconds+t.Wait, wall)
		}
		p.Ops = append(p.Ops, t)
	}
	p.NonLinear++ // what is left
	sort.Slice(p.Ops, func(i, j int) bool { return p.Ops[i].Seconds > p.Ops[j].Seconds })
	us, err := l.Engine.ProbeRegion(threads)
	p.RegionUS = 1e6 * us
	return p, err
}
