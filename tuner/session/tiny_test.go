package session

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/pool"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/generic"
	"github.com/tilewright/tilewright/tuner/probe"
	"github.com/tilewright/tilewright/tuner/resolve"
	"github.com/tilewright/tilewright/tuner/runner"
)

// deps are those of a runner of the tests: it also knows a model that takes no time.
var deps = runner.Deps{Open: openTiny, Probe: probe.Check}

const tinyName = "tiny"

func openTiny(r runner.Ref) (*model.Model, error) {
	if r.Preset != tinyName {
		return engine.Preset(r.Preset)
	}
	return &model.Model{Spec: &model.Spec{Arch: "llama", Name: tinyName, Hidden: 128, FFN: 256, Vocab: 640, Heads: 2, KVHeads: 1, HeadDim: 64,
		Context: 2048, Eps: 1e-5, Layers: make([]model.Layer, 8), Gate: kernel.GateSiLU, Tied: true, EmbedScale: 1, QueryScale: 0.125,
		Ropes: []model.Rope{model.NewRope(1e4, 64)}}}, nil
}

// still is a machine that nothing disturbs.
type still struct{}

func (still) Mark() any            { return nil }
func (still) Disturbed(any) string { return "" }

// tinyOptions are those of a tune of the tiny model on the backends that this machine runs, or on one
// that the caller brings.
func tinyOptions(dir string, budget time.Duration) (Options, error) {
	m, err := openTiny(runner.Ref{Preset: tinyName})
	if err != nil {
		return Options{}, err
	}
	cpus, err := pool.AllowedCPUs()
	if err != nil {
		return Options{}, err
	}
	cpus = cpus[:min(2, len(cpus))]
	backends := map[string]kernel.Backend{"generic": generic.New("g0")}
	info := map[string]resolve.BackendInfo{"generic": {Digest: "g0", Version: "1"}}
	var host kernel.Features
	if runtime.GOARCH == "amd64" && cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		host = kernel.NewFeatures("avx2", "fma", "f16c")
		backends["avx2"], info["avx2"] = avx2.New("a0"), resolve.BackendInfo{Digest: "a0", Version: "1"}
	}
	k := kernel.DefaultKnobs(len(cpus))
	return Options{Ref: runner.Ref{Preset: tinyName}, CPUs: cpus, Suite: &kernel.Suite{Host: host, Backends: backends},
		Store: cache.Open(cache.Options{Dir: filepath.Join(dir, "cache")}), Budget: budget, Started: time.Now(), Decode: true, Prefill: true,
		Knobs: k, Watch: still{}, Seed: 1, Progress: func(a, b string) { slog.Debug(a, "detail", b) }, Memory: 8 << 30, AllowBusy: true,
		Target: resolve.Target{Model: m, Numerics: model.Numerics{Weights: model.W4A8}, Context: 1024, CPUs: len(cpus),
			Host: cache.HostKey{Features: host}, Backends: info}}, nil
}

// tinyTune is a tune of the tiny model, ready to screen.
func tinyTune(t *testing.T, change func(*Options)) *tune {
	t.Helper()
	o, err := tinyOptions(t.TempDir(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Store.Close)
	if change != nil {
		change(&o)
	}
	u := newTune(o)
	if u.classes, err = o.Target.Model.Classes(o.Target.Numerics); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.lab.close)
	u.ppRate, u.tgRate = 1e4, 1e3
	return u
}

// wrapped is a backend with another Emit.
type wrapped struct {
	kernel.Backend
	emit func(a *kernel.Artifact) *kernel.Artifact
}

func (w wrapped) Emit(ctx context.Context, host kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	a, err := w.Backend.Emit(ctx, host, p, c)
	if err != nil {
		return nil, err
	}
	return w.emit(a), nil
}
