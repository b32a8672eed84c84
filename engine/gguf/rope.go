package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// rope reads the rotation of full layers, and of sliding ones where the file names it apart.
func (r *fields) rope(c *Config, f *File, a arch) {
	c.Rope = Rope{
		Base: r.base("rope.freq_base", 10000),
		Dims: r.ropeDims("rope.dimension_count", c.HeadDim, c.HeadDim),
	}
	c.Rope.Scaling = r.scaling(c)
	c.RopeLocal = c.Rope
	if r.err == nil {
		c.Rope.Freqs, r.err = ropeFreqs(f, c.Rope.Dims)
		c.RopeLocal.Freqs = c.Rope.Freqs
	}
	local := a.localBase
	if local == 0 {
		local = c.Rope.Base
	}
	c.RopeLocal.Base = r.base("rope.freq_base_swa", local)
	c.RopeLocal.Dims = r.ropeDims("rope.dimension_count_swa", c.Rope.Dims, c.HeadDim)
	if r.err == nil && c.RopeLocal.Dims != c.Rope.Dims && c.Rope.Freqs != nil {
		r.err = fmt.Errorf("tensor %q with two rotary sizes is not supported", ropeFreqsName)
	}
}

func (r *fields) base(name string, def float64) float64 {
	b := r.floatOr(name, def)
	if r.err == nil && (!(b > 0) || math.IsInf(b, 0)) {
		r.err = fmt.Errorf("key %q is %v: the rope base must be positive and finite", r.key(name), b)
	}
	return b
}

func (r *fields) ropeDims(name string, def, head int) int {
	d := r.intOr(name, def, 0, 1<<20)
	if r.err == nil && (d%2 != 0 || d < 2 || d > head) {
		r.err = fmt.Errorf("key %q is %d: the rope dimension must be even, at least 2 and at most the head size %d", r.key(name), d, head)
	}
	return d
}

// scaling reads rope.scaling.*, with llama.cpp's defaults for what is absent.
func (r *fields) scaling(c *Config) Scaling {
	legacy := r.floatOr("rope.scale_linear", 0)
	s := Scaling{
		Type:       r.stringOr("rope.scaling.type", "linear"),
		Factor:     r.floatOr("rope.scaling.factor", legacy),
		OrigCtx:    r.intOr("rope.scaling.original_context_length", c.Context, 1, maxContext),
		ExtFactor:  r.floatOr("rope.scaling.yarn_ext_factor", 1),
		AttnFactor: r.floatOr("rope.scaling.yarn_attn_factor", r.floatOr("rope.scaling.attn_factor", 1)),
		BetaFast:   r.floatOr("rope.scaling.yarn_beta_fast", 32),
		BetaSlow:   r.floatOr("rope.scaling.yarn_beta_slow", 1),
	}
	if r.err != nil {
		return Scaling{}
	}
	switch s.Type {
	case "none":
		return Scaling{}
	case "linear", "yarn":
	default:
		r.err = fmt.Errorf("key %q is %q: unsupported rope scaling (none, linear and yarn are)", r.key("rope.scaling.type"), s.Type)
		return Scaling{}
	}
	if s.Factor == 0 || s.Type == "linear" && s.Factor == 1 {
		return Scaling{}
	}
	for name, v := range map[string]float64{"factor": s.Factor, "attn_factor": s.AttnFactor, "yarn_beta_fast": s.BetaFast, "yarn_beta_slow": s.BetaSlow} {
		if !(v > 0) || math.IsInf(v, 0) {
			r.err = fmt.Errorf("key %q is %v: must be positive and finite", r.key("rope.scaling."+name), v)
		}
	}
	if !(s.ExtFactor >= 0) || math.IsInf(s.ExtFactor, 0) {
		r.err = fmt.Errorf("key %q is %v: must be finite and not negative", r.key("rope.scaling.yarn_ext_factor"), s.ExtFactor)
	}
	return s
}

const ropeFreqsName = "rope_freqs.weight"

func ropeFreqs(f *File, dims int) ([]float32, error) {
	t := f.Tensor(ropeFreqsName)
	if t == nil {
		return nil, nil
	}
	if t.Type != F32 || len(t.Dims) != 1 || t.Dims[0] != dims/2 {
		return nil, fmt.Errorf("tensor %q has type %s and shape %v, expected F32 and [%d]", t.Name, t.Type, t.Dims, dims/2)
	}
	out := make([]float32, dims/2)
	for i := range out {
		v := math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		if !(v > 0) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("tensor %q: item %d is %v: must be positive and finite", t.Name, i, v)
		}
		out[i] = v
	}
	return out, nil
}

// window reads which layers slide: an array by layer, a period p (the last of every p layers is
// full), or the architecture's own period.
func (r *fields) window(c *Config, a arch) {
	c.Window = r.intOr("attention.sliding_window", 0, 0, maxContext)
	c.Sliding = make([]bool, c.Layers)
	const pattern = "attention.sliding_window_pattern"
	if r.err != nil || c.Window == 0 {
		return
	}
	period := a.period
	switch key := r.key(pattern); {
	case r.kv.IsArray(key):
		var all []bool
		all, r.err = r.kv.Bools(key)
		if r.err == nil && len(all) < c.Layers {
			r.err = fmt.Errorf("key %q has %d items, the model %d layers", key, len(all), c.Layers)
		}
		copy(c.Sliding, all)
		return
	case r.kv.Has(key):
		period = r.int(pattern, 0, maxHidden)
	case period < 0:
		c.Window = 0
		return
	}
	for i := range c.Sliding {
		c.Sliding[i] = period == 0 || i%period < period-1
	}
}
