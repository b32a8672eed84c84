package gguf

import (
	"fmt"
	"slices"
)

// Spec is a tensor that a model needs: Dims in GGUF order. Vectors (norms, biases) are F32, F16 or
// BF16; matrices any type with IsWeight.
type Spec struct {
	Name string
	Dims []int
}

// TensorPlan lists the tensors that a model of this configuration has: those outside the layers
// first, then layer by layer. rope_freqs.weight is apart (Rope.Freqs).
func (c *Config) TensorPlan() []Spec {
	plan := []Spec{
		{"token_embd.weight", []int{c.Hidden, c.Vocab}},
		{"output_norm.weight", []int{c.Hidden}},
	}
	if !c.TiedHead {
		plan = append(plan, Spec{"output.weight", []int{c.Hidden, c.Vocab}})
	}
	layer := c.layerPlan()
	for i := range c.Layers {
		for _, s := range layer {
			plan = append(plan, Spec{fmt.Sprintf("blk.%d.%s", i, s.Name), s.Dims})
		}
	}
	return plan
}

func (c *Config) layerPlan() []Spec {
	h, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	var p []Spec
	add := func(on bool, name string, dims ...int) {
		if on {
			p = append(p, Spec{name, dims})
		}
	}
	add(true, "attn_norm.weight", h)
	add(c.FusedQKV, "attn_qkv.weight", h, q+2*kv)
	add(c.FusedQKV && c.QKVBias, "attn_qkv.bias", q+2*kv)
	add(!c.FusedQKV, "attn_q.weight", h, q)
	add(!c.FusedQKV, "attn_k.weight", h, kv)
	add(!c.FusedQKV, "attn_v.weight", h, kv)
	add(!c.FusedQKV && c.QKVBias, "attn_q.bias", q)
	add(!c.FusedQKV && c.QKVBias, "attn_k.bias", kv)
	add(!c.FusedQKV && c.QKVBias, "attn_v.bias", kv)
	add(c.QKNorm, "attn_q_norm.weight", c.HeadDim)
	add(c.QKNorm, "attn_k_norm.weight", c.HeadDim)
	add(c.HeadGate, "attn_gate.weight", h, c.Heads)
	add(true, "attn_output.weight", q, h)
	add(c.OutBias, "attn_output.bias", h)
	add(c.PostNorms, "post_attention_norm.weight", h)
	add(true, "ffn_norm.weight", h)
	add(true, "ffn_gate.weight", h, c.FFN)
	add(true, "ffn_up.weight", h, c.FFN)
	add(true, "ffn_down.weight", c.FFN, h)
	add(c.PostNorms, "post_ffw_norm.weight", h)
	return p
}

// Require checks the tensors of a file against the plan: presence, shape and type of each, and that
// none is left over, since a tensor that nobody reads means other arithmetic than ours.
func (f *File) Require(c *Config) error {
	plan := c.TensorPlan()
	used := map[string]bool{ropeFreqsName: true}
	for _, s := range plan {
		t := f.Tensor(s.Name)
		if t == nil {
			return fmt.Errorf("missing tensor %q of shape %v", s.Name, s.Dims)
		}
		if !slices.Equal(t.Dims, s.Dims) {
			return fmt.Errorf("wrong shape of tensor %q: it has %v, expected %v", t.Name, t.Dims, s.Dims)
		}
		if len(s.Dims) == 1 && !t.Type.IsFloat() {
			return fmt.Errorf("tensor %q: type %s cannot be used as a vector (F32, F16 or BF16 can)", t.Name, t.Type)
		}
		if !t.Type.IsWeight() {
			return fmt.Errorf("tensor %q: type %s cannot be executed as a weight", t.Name, t.Type)
		}
		used[s.Name] = true
	}
	for i := range f.Tensors {
		if n := f.Tensors[i].Name; !used[n] {
			return fmt.Errorf("unknown tensor %q: a %s model as this engine runs it has none", n, c.Arch)
		}
	}
	return nil
}
