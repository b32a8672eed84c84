package gguf

import "fmt"

// fields reads the keys of one architecture and remembers the first error.
type fields struct {
	kv   *Meta
	arch string
	err  error
}

func (r *fields) key(name string) string { return r.arch + "." + name }

func (r *fields) has(name string) bool { return r.kv.Has(r.key(name)) }

func field[T any](r *fields, get func() (T, error)) T {
	var zero T
	if r.err != nil {
		return zero
	}
	v, err := get()
	if err != nil {
		r.err = err
		return zero
	}
	return v
}

func (r *fields) int(name string, lo, hi int) int {
	return field(r, func() (int, error) { return r.kv.Int(r.key(name), lo, hi) })
}

func (r *fields) intOr(name string, def, lo, hi int) int {
	return field(r, func() (int, error) { return r.kv.IntOr(r.key(name), def, lo, hi) })
}

func (r *fields) float(name string) float64 {
	return field(r, func() (float64, error) { return r.kv.Float(r.key(name)) })
}

func (r *fields) floatOr(name string, def float64) float64 {
	return field(r, func() (float64, error) { return r.kv.FloatOr(r.key(name), def) })
}

func (r *fields) stringOr(name, def string) string {
	return field(r, func() (string, error) { return r.kv.StringOr(r.key(name), def) })
}

// perLayer reads an integer that may be an array with one item for each layer, all of them equal.
func (r *fields) perLayer(name string, layers, lo, hi int) int {
	key := r.key(name)
	if r.err != nil || !r.kv.IsArray(key) {
		return r.int(name, lo, hi)
	}
	all := field(r, func() ([]int64, error) { return r.kv.Ints(key) })
	if r.err == nil && len(all) != layers {
		r.err = fmt.Errorf("key %q has %d items: one for each of the %d layers is needed", key, len(all), layers)
	}
	if r.err != nil {
		return 0
	}
	for i, v := range all {
		if v < int64(lo) || v > int64(hi) {
			r.err = fmt.Errorf("key %q: item %d is %d: out of range, must be %d to %d", key, i, v, lo, hi)
		} else if v != all[0] {
			r.err = fmt.Errorf("key %q differs between layers: not supported", key)
		}
	}
	return int(all[0])
}

// refuse reports keys that change the arithmetic in ways that the engine does not follow.
func (r *fields) refuse() {
	if n := r.intOr("expert_count", 0, 0, 1<<20); r.err == nil && n > 0 {
		r.err = fmt.Errorf("mixture of %d experts: not supported", n)
	}
	for _, name := range []string{
		"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "residual_scale",
		"embedding_scale", "attention.clamp_kqv", "attention.max_alibi_bias",
	} {
		if v := r.floatOr(name, 0); r.err == nil && v != 0 {
			r.err = fmt.Errorf("key %q is %v: not supported", r.key(name), v)
		}
	}
}
