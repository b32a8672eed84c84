package gguf

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/engine/gguf/gguftest"
)

// with parses the one-layer model plus some keys.
func with(t *testing.T, kv map[string]any) (*Config, error) {
	t.Helper()
	b := tinyLlama()
	for k, v := range kv {
		b.KV(k, v)
	}
	f, err := Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return ReadConfig(f)
}

func TestRopeScaling(t *testing.T) {
	c, err := with(t, map[string]any{"llama.rope.scaling.factor": float32(4)})
	if err != nil || c.Rope.Type != "linear" || c.Rope.Factor != 4 {
		t.Errorf("linear by default: %+v, %v", c, err)
	}
	c, err = with(t, map[string]any{
		"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4),
		"llama.rope.scaling.original_context_length": uint32(16), "llama.rope.scaling.yarn_beta_fast": float32(8),
	})
	want := Scaling{"yarn", 4, 16, 1, 1, 8, 1}
	if err != nil || c.Rope.Scaling != want || c.RopeLocal.Scaling != want {
		t.Errorf("yarn: %+v, %v", c, err)
	}
	for _, kv := range []map[string]any{{"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": float32(4)}, {"llama.rope.scaling.factor": float32(1)}} {
		if c, err = with(t, kv); err != nil || c.Rope.Scaling != (Scaling{}) {
			t.Errorf("%v: %+v, %v", kv, c, err)
		}
	}
}

func TestWindow(t *testing.T) {
	c, err := with(t, map[string]any{"llama.attention.sliding_window": uint32(16)})
	if err != nil || c.Window != 16 || !slices.Equal(c.Sliding, []bool{true}) {
		t.Errorf("every layer: %+v, %v", c, err)
	}
	c, err = with(t, map[string]any{"llama.attention.sliding_window": uint32(16), "llama.attention.sliding_window_pattern": []bool{false, true}})
	if err != nil || !slices.Equal(c.Sliding, []bool{false}) {
		t.Errorf("by layer: %+v, %v", c, err)
	}
}

func TestConfigRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for want, kv := range map[string]map[string]any{
		"unsupported rope scaling": {"llama.rope.scaling.type": "longrope"},
		"must be positive":         {"llama.rope.scaling.factor": -inf},
		"0 items":                  {"llama.attention.sliding_window": uint32(4), "llama.attention.sliding_window_pattern": []bool{}},
		"mixture of 8 experts":     {"llama.expert_count": uint32(8)},
		"not supported":            {"llama.final_logit_softcapping": float32(30)},
		"value heads":              {"llama.attention.key_length": uint32(4), "llama.attention.value_length": uint32(8)},
		"is odd":                   {"llama.attention.key_length": uint32(5), "llama.attention.value_length": uint32(5), "llama.rope.dimension_count": uint32(4)},
		"embedding has 4 rows":     {"llama.vocab_size": uint32(5)},
		"2 parts of a split model": {"split.count": uint32(2)},
	} {
		b := tinyLlama()
		for k, v := range kv {
			b.KV(k, v)
		}
		f, err := Parse(b.Bytes())
		if err == nil {
			_, err = ReadConfig(f)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one about %q", kv, err, want)
		}
	}
}

func TestMetaGetters(t *testing.T) {
	f, err := Parse(new(gguftest.Builder).KV("u", uint32(7)).KV("i", int32(-2)).KV("f", float32(0.5)).
		KV("b", true).KV("s", "x").KV("as", []string{"p", "", "q"}).KV("ai", []int32{-1, 2}).
		KV("af", []float32{1, 2}).KV("ab", []bool{true, false}).Tensor("t", uint32(Q8_0), make([]byte, 68), 32, 2).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m := &f.KV
	if v, err := m.Int("u", 0, 9); v != 7 || err != nil {
		t.Error(v, err)
	}
	if v, err := m.Strings("as"); !slices.Equal(v, []string{"p", "", "q"}) || err != nil {
		t.Error(v, err)
	}
	if v, err := m.Ints("ai"); !slices.Equal(v, []int64{-1, 2}) || err != nil {
		t.Error(v, err)
	}
	if v, err := m.Bools("ab"); !slices.Equal(v, []bool{true, false}) || err != nil {
		t.Error(v, err)
	}
	if v, err := m.Floats("af"); !slices.Equal(v, []float32{1, 2}) || err != nil {
		t.Error(v, err)
	}
	if v, err := m.FloatOr("none", 3); v != 3 || err != nil {
		t.Error(v, err)
	}
	_, e1 := m.Uint("i")
	_, e2 := m.Int("u", 0, 6)
	_, e3 := m.String("u")
	_, e4 := m.Bool("none")
	_, e5 := m.Ints("as")
	for i, err := range []error{e1, e2, e3, e4, e5} {
		if err == nil {
			t.Errorf("getter %d: no error", i)
		}
	}
	x := f.Tensor("t")
	if x.K() != 32 || x.N() != 2 || len(x.Row(1)) != 34 || f.Tensor("u") != nil {
		t.Errorf("tensor %+v", x)
	}
}
