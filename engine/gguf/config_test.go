package gguf

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/kernel"
)

func plainRope(base float64, dims int) Rope { return Rope{Base: base, Dims: dims} }

// TestConfigOfTinyModels compares everything that the small checkpoints say.
func TestConfigOfTinyModels(t *testing.T) {
	swaFull := plainRope(5e6, 8)
	want := map[string]Config{
		"tiny/gguf-spark2_5-q5_0/spark2_5-q5_0.gguf": {
			Arch: "spark2_5", Layers: 4, Hidden: 64, FFN: 160, Vocab: 384, Context: 512, Heads: 4,
			KVHeads: 2, HeadDim: 32, Eps: 1e-6, Act: kernel.GateGELU, EmbedScale: 1,
			QueryScale: 0.17677669, FusedQKV: true, HeadGate: true, TiedHead: true, Window: 16,
			Rope: swaFull, RopeLocal: plainRope(1e4, 32), Sliding: []bool{true, true, true, false},
		},
		"tiny/gguf-gemma3-q8_0/gemma3-q8_0.gguf": {
			Arch: "gemma3", Layers: 6, Hidden: 96, FFN: 96, Vocab: 512, Context: 512, Heads: 4,
			KVHeads: 1, HeadDim: 32, Eps: 1e-6, Act: kernel.GateGELUTan, EmbedScale: 9.797959,
			QueryScale: 0.17677669, QKNorm: true, PostNorms: true, TiedHead: true, Window: 16,
			Rope: plainRope(1e6, 32), RopeLocal: plainRope(1e4, 32),
			Sliding: []bool{true, true, true, true, true, false},
		},
		"tiny/gguf-qwen2-q4_1/qwen2-q4_1.gguf": {
			Arch: "qwen2", Layers: 3, Hidden: 64, FFN: 160, Vocab: 384, Context: 512, Heads: 4,
			KVHeads: 2, HeadDim: 16, Eps: 1e-5, Act: kernel.GateSiLU, EmbedScale: 1, QueryScale: 0.25,
			QKVBias: true, TiedHead: true, Rope: plainRope(1e6, 16), RopeLocal: plainRope(1e6, 16),
			Sliding: make([]bool, 3),
		},
		"tiny/gguf-qwen3-q8_0/qwen3-q8_0.gguf": {
			Arch: "qwen3", Layers: 3, Hidden: 64, FFN: 160, Vocab: 384, Context: 512, Heads: 4,
			KVHeads: 2, HeadDim: 32, Eps: 1e-5, Act: kernel.GateSiLU, EmbedScale: 1,
			QueryScale: 0.17677669, QKNorm: true, TiedHead: true, Rope: plainRope(1e6, 32),
			RopeLocal: plainRope(1e6, 32), Sliding: make([]bool, 3),
		},
		"smollm2-135m/model.gguf": {
			Arch: "llama", Layers: 30, Hidden: 576, FFN: 1536, Vocab: 49152, Context: 8192, Heads: 9,
			KVHeads: 3, HeadDim: 64, Eps: 1e-5, Act: kernel.GateSiLU, EmbedScale: 1,
			QueryScale: 0.125, PairedRope: true, TiedHead: true, Rope: plainRope(1e5, 64),
			RopeLocal: plainRope(1e5, 64), Sliding: make([]bool, 30),
		},
	}
	for path, w := range want {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Open(gguftest.Shared(t, "models", path))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := ReadConfig(f)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(w, *got, cmpopts.IgnoreFields(Config{}, "Name")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestConfigRopeFreqs(t *testing.T) {
	f, err := Open(gguftest.Shared(t, "models/tiny/gguf-llama3-rope-bf16/llama3-rope-bf16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rope.Freqs) != 16 || c.Rope.Freqs[0] != 1 || c.Rope.Freqs[15] <= 1 {
		t.Errorf("rope freqs %v", c.Rope.Freqs)
	}
	if !c.TiedHead || !c.PairedRope {
		t.Errorf("tied %v, paired %v", c.TiedHead, c.PairedRope)
	}
}
