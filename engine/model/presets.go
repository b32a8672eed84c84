package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/kernel"
)

// DefaultPreset is the preset that a bare tune uses.
const DefaultPreset = "qwen3-0.6b"

var presets = map[string]func() *Spec{
	"spark-1.7b": func() *Spec {
		s := base("spark2_5", 2048, 28, 6656, 131072, 8, 2, 256, 1048576, 1e-6)
		s.Ropes = []Rope{NewRope(1e4, 256), NewRope(5e6, 64)}
		s.Gate, s.HeadGate = kernel.GateGELU, HeadGateSigmoid
		for i := range s.Layers {
			if i%4 < 3 {
				s.Layers[i] = Layer{Window: 512}
			} else {
				s.Layers[i] = Layer{Rope: 1}
			}
		}
		return s
	},
	"llama-3.2-1b": func() *Spec {
		s := base("llama", 2048, 16, 8192, 128256, 32, 8, 64, 131072, 1e-5)
		s.Ropes = []Rope{NewRope(5e5, 64).Llama3(32, 1, 4, 8192)}
		return s
	},
	"qwen3-0.6b": func() *Spec {
		s := base("qwen3", 1024, 28, 3072, 151936, 16, 8, 128, 40960, 1e-6)
		s.Ropes = []Rope{NewRope(1e6, 128)}
		s.QKNorm = true
		return s
	},
	"smollm2-135m": func() *Spec {
		s := base("llama", 576, 30, 1536, 49152, 9, 3, 64, 8192, 1e-5)
		s.Ropes = []Rope{NewRope(1e5, 64)}
		return s
	},
}

func base(arch string, hidden, layers, ffn, vocab, heads, kvHeads, dim, ctx int, eps float32) *Spec {
	return &Spec{
		Arch: arch, Hidden: hidden, FFN: ffn, Vocab: vocab, Heads: heads, KVHeads: kvHeads, HeadDim: dim,
		Context: ctx, Eps: eps, Layers: make([]Layer, layers), Gate: kernel.GateSiLU, Tied: true,
		EmbedScale: 1, QueryScale: float32(1 / math.Sqrt(float64(dim))),
	}
}

// Presets lists the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the shape of a published model.
func Preset(name string) (*Spec, error) {
	f, ok := presets[name]
	if !ok {
		return nil, fmt.Errorf("unknown preset %q (there are: %s)", name, strings.Join(Presets(), ", "))
	}
	s := f()
	s.Name = name
	return s, nil
}
