package engine_test

import (
	"context"
	"runtime"

	"golang.org/x/sys/cpu"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/avx2"
	"github.com/tilewright/tilewright/plugins/avx512"
	"github.com/tilewright/tilewright/plugins/avxvnni"
	"github.com/tilewright/tilewright/plugins/generic"
)

// native is the default arm of the built-in backends on this CPU, emitted afresh.
type native struct{ kernel.Suite }

func newNative() native {
	s := kernel.Suite{Host: hostFeatures(), Backends: map[string]kernel.Backend{generic.Name: generic.New("test")}}
	if runtime.GOARCH == "amd64" {
		s.Backends[avx2.Name], s.Backends[avxvnni.Name], s.Backends[avx512.Name] = avx2.New("test"), avxvnni.New("test"), avx512.New("test")
	}
	return native{s}
}

func (n native) Layout(ctx context.Context, c model.Class) (kernel.Layout, error) {
	return n.Suite.Layout(ctx, c.Format)
}

func (n native) Choice(ctx context.Context, p kernel.Problem) (kernel.Choice, error) {
	return n.Default(ctx, p)
}

func (n native) Artifact(ctx context.Context, c kernel.Choice) (*kernel.Artifact, error) {
	return n.Emit(ctx, c)
}

func nativeOptions(w model.Weights) engine.Options {
	n := newNative()
	return engine.Options{Numerics: model.Numerics{Weights: w}, Plan: n, Source: n, Host: n.Host}
}

func hostFeatures() kernel.Features {
	var names []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2}, {"fma", cpu.X86.HasFMA}, {"f16c", cpu.X86.HasFMA && cpu.X86.HasAVX2},
		{"avx512f", cpu.X86.HasAVX512F}, {"avx512bw", cpu.X86.HasAVX512BW}, {"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512dq", cpu.X86.HasAVX512DQ}, {"avx512_vnni", cpu.X86.HasAVX512VNNI}, {"avx_vnni", cpu.X86.HasAVXVNNI},
	} {
		if f.has {
			names = append(names, f.name)
		}
	}
	return kernel.NewFeatures(names...)
}
