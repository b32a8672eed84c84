package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/pool"
	"github.com/tilewright/tilewright/internal/srcdigest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/resolve"
	"github.com/tilewright/tilewright/tuner/runner"
)

// ModelFlags name a model and how to execute it.
type ModelFlags struct {
	Model   string
	Preset  string
	Weights string
	Requant string
	Context int
	KV      string
	Threads int
	Prefill int
	ISA     string
	Pin     bool

	// MinContext is what the command itself needs of the context; no flag. It enlarges the engine's, up
	// to the model's, and not the one that tuned results are looked up with.
	MinContext int
}

// Register adds the flags. allowPreset is false for commands that need a tokenizer.
func (f *ModelFlags) Register(fs *pflag.FlagSet, allowPreset bool) {
	fs.StringVar(&f.Model, "model", "", "GGUF file")
	if allowPreset {
		fs.StringVar(&f.Preset, "preset", "", "published shape with random weights: "+strings.Join(model.Presets(), ", "))
	}
	fs.StringVar(&f.Weights, "weights", string(model.W4A8), "arithmetic: w4a8, w4a16 or f32")
	fs.StringVar(&f.Requant, "requant", "", "requantise 4-bit weights: g32, g64 or g128 (default: keep the file's grid)")
	fs.IntVar(&f.Context, "ctx", 0, "positions of context (default 4096, or what the model has)")
	fs.StringVar(&f.KV, "kv-type", "", "KV cache: f16, bf16 or f32")
	fs.IntVarP(&f.Threads, "threads", "t", 0, "threads (default: tuned, else one for each usable core)")
	fs.IntVar(&f.Prefill, "threads-prefill", 0, "threads for prefill (default: as --threads)")
	fs.StringVar(&f.ISA, "isa", "", "add or remove CPU features: +avx512_bf16,-avx512f")
	fs.BoolVar(&f.Pin, "pin", false, "freeze the configuration: no look-up of tuned results, no write")
}

// Numerics checks and converts the flags that fix the numbers.
func (f *ModelFlags) Numerics() (model.Numerics, error) {
	n := model.Numerics{Weights: model.Weights(f.Weights)}
	switch f.Requant {
	case "":
	case "g32", "g64", "g128":
		fmt.Sscanf(f.Requant, "g%d", &n.Requant)
	default:
		return n, cli.Usagef("--requant %q: want g32, g64 or g128", f.Requant)
	}
	if err := n.Validate(); err != nil {
		return n, cli.Usagef("--weights: %v", err)
	}
	if n.Weights == model.F32 && f.KV != "" && f.KV != string(kernel.ElemF32) {
		return n, cli.Usagef("--kv-type %s: --weights f32 is the reference, its KV cache is f32", f.KV)
	}
	return n, nil
}

// Ref names the model, which must be given in exactly one way.
func (f *ModelFlags) Ref() (runner.Ref, error) {
	switch {
	case f.Model == "" && f.Preset == "":
		return runner.Ref{}, cli.Usagef("no model: give --model FILE.gguf (or, where the command has it, --preset: %s)",
			strings.Join(model.Presets(), ", "))
	case f.Model != "" && f.Preset != "":
		return runner.Ref{}, cli.Usagef("give --model or --preset, not both")
	}
	return runner.Ref{Path: f.Model, Preset: f.Preset}, nil
}

// OpenModel opens what a Ref names.
func OpenModel(r runner.Ref) (*model.Model, error) {
	if r.Preset != "" {
		m, err := engine.Preset(r.Preset)
		if err != nil {
			return nil, cli.Usagef("--preset: %v", err)
		}
		return m, nil
	}
	return engine.Open(r.Path)
}

// Pinned lists the settings that the user fixed and that an arm would otherwise choose.
func (f *ModelFlags) Pinned() map[string]string {
	out := map[string]string{}
	add := func(on bool, name, v string) {
		if on {
			out[name] = v
		}
	}
	add(f.KV != "", "kv-type", f.KV)
	add(f.Threads != 0, "threads", fmt.Sprint(f.Threads))
	add(f.Prefill != 0, "threads-prefill", fmt.Sprint(f.Prefill))
	add(f.ISA != "", "isa", f.ISA)
	return out
}

// Check refuses numbers that no engine could take for this model.
func (f *ModelFlags) Check(m *model.Model) error {
	switch {
	case f.Threads < 0 || f.Prefill < 0 || f.Context < 0:
		return cli.Usagef("--threads, --threads-prefill and --ctx must not be negative")
	case max(f.Threads, f.Prefill) > pool.MaxWorkers:
		return cli.Usagef("%d threads: at most %d", max(f.Threads, f.Prefill), pool.MaxWorkers)
	case f.Context > m.Spec.Context:
		return cli.Usagef("--ctx %d: %s has %d positions of context", f.Context, m.Spec.Name, m.Spec.Context)
	}
	return nil
}

// apply puts the user's settings over the knobs of an arm.
func (f *ModelFlags) apply(k *kernel.Knobs) error {
	if f.Threads > 0 {
		k.ThreadsDecode, k.ThreadsPrefill = f.Threads, f.Threads
	}
	if f.Prefill > 0 {
		k.ThreadsPrefill = f.Prefill
	}
	switch t := kernel.ElemType(f.KV); t {
	case "":
	case kernel.ElemF16, kernel.ElemBF16, kernel.ElemF32:
		k.KV = t
	default:
		return cli.Usagef("--kv-type %q: want f16, bf16 or f32", f.KV)
	}
	return nil
}

// Loaded is an engine with all that it stands on.
type Loaded struct {
	Host     *Host
	Backends *Backends
	Model    *model.Model
	Engine   *engine.Engine
	Plan     *resolve.Plan
	Numerics model.Numerics
	closers  []func()
}

// Close releases everything, last opened first.
func (l *Loaded) Close() {
	for i := len(l.closers) - 1; i >= 0; i-- {
		l.closers[i]()
	}
	l.closers = nil
}

func (l *Loaded) onClose(f func()) { l.closers = append(l.closers, f) }

// Target describes the model on this host to the cache.
func Target(h *Host, b *Backends, m *model.Model, n model.Numerics, ctx int, pinned map[string]string) resolve.Target {
	return resolve.Target{Model: m, Numerics: n, Context: ContextOf(m, ctx), CPUs: len(h.CPUs), Host: h.Key,
		Pinned: pinned, Backends: b.Info(), Engine: srcdigest.Engine()}
}

// ContextOf is the context that the user asked for; 0 is the default.
func ContextOf(m *model.Model, ctx int) int {
	if ctx == 0 {
		return min(4096, m.Spec.Context)
	}
	return ctx
}

// Load opens a model and loads it with what the cache knows about it.
func Load(ctx context.Context, s *cli.Shared, f *ModelFlags, obs engine.Observer) (*Loaded, error) {
	ref, err := f.Ref()
	if err != nil {
		return nil, err
	}
	l := &Loaded{}
	if l.Numerics, err = f.Numerics(); err != nil {
		return nil, err
	}
	if err := l.load(ctx, s, f, ref, obs); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Loaded) load(ctx context.Context, s *cli.Shared, f *ModelFlags, ref runner.Ref, obs engine.Observer) (err error) {
	if l.Host, err = NewHost(ctx, f.ISA); err != nil {
		return err
	}
	if l.Model, err = OpenModel(ref); err != nil {
		return err
	}
	l.onClose(func() { l.Model.Close() })
	if err := f.Check(l.Model); err != nil {
		return err
	}
	memo := s.CacheDir
	if f.Pin {
		memo = ""
	}
	b, err := NewBackends(ctx, l.Host, s.PluginDir, memo)
	if err != nil {
		return err
	}
	l.Backends = b
	l.onClose(b.Close)
	o := resolve.Options{Suite: b.Suite, Knobs: l.Host.Knobs(len(l.Host.CPUs))}
	if !f.Pin {
		o.Store = s.OpenCache(false)
		l.onClose(o.Store.Close)
	}
	if err := l.start(ctx, f, o, obs); err != nil {
		return err
	}
	l.onClose(l.Engine.Close)
	b.Close() // nothing more to emit until another M is asked for
	slog.Info("loaded", "model", l.Model.Spec.Name, "seconds", l.Engine.Stats().Seconds, "plan", l.Plan.Line)
	return nil
}

// start loads the engine with what the cache knows. Tuned results that it cannot be loaded with are set
// aside: it starts with the defaults and says why.
func (l *Loaded) start(ctx context.Context, f *ModelFlags, o resolve.Options, obs engine.Observer) error {
	positions := max(ContextOf(l.Model, f.Context), min(f.MinContext, l.Model.Spec.Context))
	t := Target(l.Host, l.Backends, l.Model, l.Numerics, f.Context, f.Pinned())
	for refused := error(nil); ; {
		var err error
		if l.Plan, err = resolve.New(t, o); err != nil {
			return err
		}
		if refused != nil {
			l.Plan.Line = fmt.Sprintf("tuned results could not be loaded, running the defaults: run tune again (%v)", refused)
		}
		knobs := l.Host.spare(l.Plan.Knobs) // those of a tune without the quota may spin
		if err := f.apply(&knobs); err != nil {
			return err
		}
		l.Engine, err = engine.Load(ctx, l.Model, engine.Options{Numerics: l.Numerics, Context: positions, Knobs: knobs,
			CPUs: l.Host.CPUs, Plan: l.Plan, Source: l.Plan, Host: l.Host.Features, Observer: obs})
		if err == nil || ctx.Err() != nil || l.Plan.Tuning == resolve.TuningNone {
			return err
		}
		refused, o.Store = err, nil
	}
}

// Judge compares the speed of a run with the evidence that it runs by. A slow one is said and marked
// for the next tune; nothing is switched.
func (l *Loaded) Judge(w *resolve.SpeedWatch) {
	why, err := l.Plan.Judge(w)
	if err != nil {
		slog.Warn("decision not marked for revalidation", "why", err)
	}
	if why != "" {
		slog.Warn("slower than when it was tuned: run tune to look again", "why", why)
	}
}

// Say prints the one line about tuning on stderr, unless quiet.
func (l *Loaded) Say(s *cli.Shared) {
	if !s.Quiet {
		fmt.Fprintf(os.Stderr, "tilewright: %s\n", l.Plan.Line)
	}
}

// KeyDigest identifies the decision that was looked for.
func (l *Loaded) KeyDigest() string { return kernel.KeyDigest(l.Plan.Key) }

// Tuned reports whether winners for this very model run.
func (l *Loaded) Tuned() bool { return l.Plan.Tuning == resolve.TuningExact }
