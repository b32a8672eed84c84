package gguf

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Config holds the hyper-parameters of a model, the same for every architecture.
type Config struct {
	Arch string // general.architecture
	Name string // general.name, may be empty

	Layers, Hidden, FFN, Vocab int
	Context                    int // positions it was trained for; may be absurd, allocate nothing by it
	Heads, KVHeads, HeadDim    int

	Eps        float32     // of every RMSNorm
	Act        kernel.Gate // of the gated MLP
	EmbedScale float32     // embeddings are multiplied by it
	QueryScale float32     // q.k is multiplied by it

	PairedRope bool // rows of q and k are permuted so that adjacent pairs rotate; else halves
	QKNorm     bool // per-head RMSNorm of q and k: attn_q_norm, attn_k_norm
	QKVBias    bool // attn_q.bias, attn_k.bias, attn_v.bias
	OutBias    bool // attn_output.bias
	FusedQKV   bool // attn_qkv holds q, k and v stacked on the rows
	HeadGate   bool // attn_gate: sigmoid of a row per head scales the head's output
	PostNorms  bool // post_attention_norm and post_ffw_norm on what a block adds
	TiedHead   bool // the head is token_embd.weight; else output.weight

	Rope      Rope   // of layers with full attention
	RopeLocal Rope   // of sliding layers
	Window    int    // positions that a sliding layer sees, itself included; 0 if none slides
	Sliding   []bool // by layer
}

// Rope describes a rotation of heads.
type Rope struct {
	Base  float64
	Dims  int       // leading dimensions that rotate
	Freqs []float32 // divisors of the Dims/2 frequencies (tensor rope_freqs.weight), nil for none
	Scaling
}

// Scaling is a change of rotary frequencies for contexts longer than those trained.
type Scaling struct {
	Type       string  // "", "linear" or "yarn"
	Factor     float64 // at least 1 as a rule
	OrigCtx    int     // yarn: positions trained before the change
	ExtFactor  float64 // yarn: weight of the extrapolation, 1
	AttnFactor float64 // yarn: extra factor on cos and sin, beside its own 0.1 ln(Factor) + 1
	BetaFast   float64 // yarn: 32
	BetaSlow   float64 // yarn: 1
}

// Ranges far above any real model, so that sizes computed from them cannot overflow.
const (
	maxHidden  = 1 << 20
	maxHeads   = 1 << 14
	maxContext = math.MaxUint32
)

// ReadConfig reads and validates the hyper-parameters, checks that every tensor that the
// architecture needs is there with the right shape and an executable type, and that no other is.
func ReadConfig(f *File) (*Config, error) {
	c, err := readConfig(f)
	if err == nil {
		err = f.Require(c)
	}
	switch {
	case err == nil:
		return c, nil
	case f.Path != "":
		return nil, fmt.Errorf("gguf: %q: %w", f.Path, err)
	}
	return nil, fmt.Errorf("gguf: %w", err)
}

func readConfig(f *File) (*Config, error) {
	name, err := f.KV.String("general.architecture")
	if err != nil {
		return nil, err
	}
	a, ok := archs[name]
	if !ok {
		return nil, fmt.Errorf("unsupported architecture %q (supported: %s)", name, archNames())
	}
	r := &fields{kv: &f.KV, arch: name}
	c := &Config{Arch: name, EmbedScale: 1, Act: kernel.GateSiLU}
	c.Name, r.err = f.KV.StringOr("general.name", "")
	r.refuse()
	r.shape(c, f)
	if r.err == nil {
		r.attention(c)
		r.rope(c, f, a)
		r.window(c, a)
	}
	if r.err != nil {
		return nil, r.err
	}
	c.QKVBias = f.Tensor("blk.0.attn_q.bias") != nil
	c.OutBias = f.Tensor("blk.0.attn_output.bias") != nil
	c.TiedHead = f.Tensor("output.weight") == nil
	a.apply(c)
	return c, nil
}

// shape reads what sizes the model. The vocabulary is that of the embedding.
func (r *fields) shape(c *Config, f *File) {
	c.Layers = r.int("block_count", 1, maxHidden)
	if r.err == nil && c.Layers > len(f.Tensors) {
		r.err = fmt.Errorf("key %q is %d: more layers than the file has tensors (%d)", r.key("block_count"), c.Layers, len(f.Tensors))
		return
	}
	c.Hidden = r.int("embedding_length", 1, maxHidden)
	c.FFN = r.perLayer("feed_forward_length", c.Layers, 1, maxHidden)
	c.Context = r.int("context_length", 1, maxContext)
	eps := r.float("attention.layer_norm_rms_epsilon")
	if r.err == nil && !(eps > 0 && eps < 1) {
		r.err = fmt.Errorf("key %q is %v: must be positive and finite, under 1", r.key("attention.layer_norm_rms_epsilon"), eps)
	}
	c.Eps = float32(eps)
	e := f.Tensor("token_embd.weight")
	switch {
	case r.err != nil:
	case e == nil:
		r.err = fmt.Errorf("missing tensor %q", "token_embd.weight")
	case len(e.Dims) != 2:
		r.err = fmt.Errorf("tensor %q has shape %v, expected two dimensions", e.Name, e.Dims)
	default:
		c.Vocab = e.N()
		r.vocab(c.Vocab)
	}
}

func (r *fields) vocab(rows int) {
	n := r.intOr("vocab_size", rows, 1, math.MaxInt32)
	const tokens = "tokenizer.ggml.tokens"
	switch {
	case r.err != nil:
	case n != rows:
		r.err = fmt.Errorf("key %q is %d, but the embedding has %d rows", r.key("vocab_size"), n, rows)
	case r.kv.Has(tokens) && r.kv.Len(tokens) != rows:
		r.err = fmt.Errorf("vocabulary and embedding differ: key %q has %d tokens, the embedding %d rows", tokens, r.kv.Len(tokens), rows)
	}
}

func (r *fields) attention(c *Config) {
	c.Heads = r.perLayer("attention.head_count", c.Layers, 1, maxHeads)
	c.KVHeads = c.Heads
	if r.has("attention.head_count_kv") {
		c.KVHeads = r.perLayer("attention.head_count_kv", c.Layers, 1, maxHeads)
	}
	if r.err != nil {
		return
	}
	if c.Heads%c.KVHeads != 0 {
		r.err = fmt.Errorf("%d heads are not a multiple of %d key-value heads", c.Heads, c.KVHeads)
		return
	}
	if !r.has("attention.key_length") && c.Hidden%c.Heads != 0 {
		r.err = fmt.Errorf("embedding length %d is not a multiple of %d heads, and key %q is missing", c.Hidden, c.Heads, r.key("attention.key_length"))
		return
	}
	c.HeadDim = r.intOr("attention.key_length", c.Hidden/c.Heads, 2, 1<<12)
	if v := r.intOr("attention.value_length", c.HeadDim, 1, 1<<12); r.err == nil && v != c.HeadDim {
		r.err = fmt.Errorf("value heads of %d beside key heads of %d are not supported", v, c.HeadDim)
	}
	if r.err == nil && c.HeadDim%2 != 0 {
		r.err = fmt.Errorf("head size %d is odd", c.HeadDim)
	}
	c.QueryScale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	if s := r.floatOr("attention.scale", 0); r.err == nil && s != 0 {
		if !(s > 0) || math.IsInf(s, 0) {
			r.err = fmt.Errorf("key %q is %v: must be positive and finite", r.key("attention.scale"), s)
		}
		c.QueryScale = float32(s)
	}
}
