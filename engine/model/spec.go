// Package model describes what the engine runs, apart from any file: the shape of a decoder, which
// weights it has, and in which formats they are executed.
package model

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Spec is a decoder-only transformer. Every architecture is one setting of these fields.
type Spec struct {
	Arch    string // family, as GGUF spells it: llama, qwen2, qwen3, gemma3, spark2_5
	Name    string
	Hidden  int
	FFN     int
	Vocab   int
	Heads   int // query heads
	KVHeads int
	HeadDim int
	Context int // positions that the model was made for
	Eps     float32

	Layers []Layer
	Ropes  []Rope // rotation tables that layers refer to

	Gate       kernel.Gate // activation of the gated MLP
	HeadGate   HeadGate    // gate on the output of each attention head
	QKNorm     bool        // RMSNorm of each head of q and k before the rotation
	QKVBias    bool
	OutBias    bool
	PostNorms  bool // RMSNorm of what attention and MLP add, before it is added
	Tied       bool // the head's weights are the embedding's
	EmbedScale float32
	QueryScale float32 // on q.k, usually 1/sqrt(HeadDim)
}

// Layer is what differs between layers.
type Layer struct {
	Window int // positions that attention sees, itself included; 0 for all
	Rope   int // index into Spec.Ropes
}

// HeadGate names the gate that scales the output of an attention head: an extra row per head of the
// q, k, v product.
type HeadGate string

const (
	HeadGateNone    HeadGate = ""
	HeadGateSigmoid HeadGate = "sigmoid"
	HeadGateSiLU    HeadGate = "silu"
)

// Apply is the factor that a gate's pre-activation stands for.
func (g HeadGate) Apply(x float32) float32 {
	s := float32(1 / (1 + math.Exp(-float64(x))))
	if g == HeadGateSiLU {
		return x * s
	}
	return s
}

// Group is the number of query heads that share a KV head.
func (s *Spec) Group() int { return s.Heads / s.KVHeads }

// QRows and KVRows are the output channels of the q and of the k (or v) product.
func (s *Spec) QRows() int  { return s.Heads * s.HeadDim }
func (s *Spec) KVRows() int { return s.KVHeads * s.HeadDim }

// Validate reports a shape that the engine cannot run.
func (s *Spec) Validate() error {
	bad := func(format string, v ...any) error {
		return fmt.Errorf("model %s: %s", s.Name, fmt.Sprintf(format, v...))
	}
	for name, v := range map[string]int{"hidden size": s.Hidden, "MLP size": s.FFN, "vocabulary": s.Vocab,
		"heads": s.Heads, "KV heads": s.KVHeads, "head size": s.HeadDim, "layers": len(s.Layers), "context": s.Context} {
		if v < 1 {
			return bad("%s is %d", name, v)
		}
	}
	switch {
	case s.Heads%s.KVHeads != 0:
		return bad("%d query heads are not a multiple of %d KV heads", s.Heads, s.KVHeads)
	case s.HeadDim%2 != 0:
		return bad("odd head size %d", s.HeadDim)
	case s.Hidden%4 != 0 || s.FFN%4 != 0 || s.QRows()%4 != 0:
		return bad("hidden size %d, MLP size %d and %d query rows must be multiples of 4", s.Hidden, s.FFN, s.QRows())
	}
	for i, l := range s.Layers {
		if l.Rope < 0 || l.Rope >= len(s.Ropes) || l.Window < 0 {
			return bad("layer %d has window %d and rotation table %d of %d", i, l.Window, l.Rope, len(s.Ropes))
		}
	}
	for _, r := range s.Ropes {
		if 2*len(r.Freqs) > s.HeadDim {
			return bad("%d rotated dimensions in heads of %d", 2*len(r.Freqs), s.HeadDim)
		}
	}
	return nil
}
