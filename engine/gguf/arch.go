package gguf

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/kernel"
)

// arch is what the name of an architecture says beyond the keys of a file.
type arch struct {
	period    int     // sliding layers without a pattern key: of every period the last is full; 0 all slide, -1 none
	localBase float64 // rope base of sliding layers without a key; 0: that of full layers
	apply     func(*Config)
}

// archs follows llama.cpp's reading of each architecture.
var archs = map[string]arch{
	"llama":    {0, 0, func(c *Config) { c.PairedRope = true }},
	"qwen2":    {-1, 0, func(c *Config) { c.QKVBias = true }},
	"qwen3":    {-1, 0, func(c *Config) { c.QKNorm = true }},
	"gemma3":   {6, 10000, gemma3},
	"spark2_5": {4, 0, spark},
}

func archNames() string {
	return strings.Join(slices.Sorted(maps.Keys(archs)), ", ")
}

// gemma3: norms of the file already hold 1 + w; only full layers are scaled.
func gemma3(c *Config) {
	c.Act = kernel.GateGELUTan
	c.QKNorm, c.PostNorms = true, true
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	if c.Layers == 62 { // 27B: query_pre_attn_scalar is hidden/heads, which no key says
		c.QueryScale = float32(1 / math.Sqrt(float64(c.Hidden)/float64(c.Heads)))
	}
	c.RopeLocal.Scaling = Scaling{}
}

func spark(c *Config) {
	c.Act = kernel.GateGELU
	c.FusedQKV, c.HeadGate = true, true
}
