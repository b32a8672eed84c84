package gguf

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tilewright/tilewright/engine/gguf/gguftest"
)

// tinyLlama is a whole model of one layer.
func tinyLlama() *gguftest.Builder {
	b := new(gguftest.Builder)
	b.KV("general.architecture", "llama").KV("general.name", "tiny").
		KV("llama.context_length", uint32(64)).KV("llama.embedding_length", uint32(8)).
		KV("llama.block_count", uint32(1)).KV("llama.feed_forward_length", uint32(8)).
		KV("llama.attention.head_count", uint32(2)).KV("llama.attention.head_count_kv", uint32(1)).
		KV("llama.attention.layer_norm_rms_epsilon", float32(1e-5)).
		KV("tokenizer.ggml.tokens", []string{"a", "b", "c", "d"})
	add := func(name string, dims ...int) {
		n := 4
		for _, d := range dims {
			n *= d
		}
		b.Tensor(name, uint32(F32), make([]byte, n), dims...)
	}
	add("token_embd.weight", 8, 4)
	add("output_norm.weight", 8)
	add("blk.0.attn_norm.weight", 8)
	add("blk.0.attn_q.weight", 8, 8)
	add("blk.0.attn_k.weight", 8, 4)
	add("blk.0.attn_v.weight", 8, 4)
	add("blk.0.attn_output.weight", 8, 8)
	add("blk.0.ffn_norm.weight", 8)
	add("blk.0.ffn_gate.weight", 8, 8)
	add("blk.0.ffn_up.weight", 8, 8)
	add("blk.0.ffn_down.weight", 8, 8)
	return b
}

func TestParseTinyModel(t *testing.T) {
	f, err := Parse(tinyLlama().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	if c.Vocab != 4 || c.HeadDim != 4 || c.Rope.Base != 10000 || c.Rope.Dims != 4 {
		t.Errorf("config %+v", c)
	}
}

// TestTruncatedAnywhere cuts a valid model at every byte: no cut may load or panic.
func TestTruncatedAnywhere(t *testing.T) {
	b := tinyLlama().Bytes()
	for n := range b {
		if f, err := Parse(b[:n:n]); err == nil {
			if _, err := ReadConfig(f); err == nil && len(b)-n > 31 {
				t.Fatalf("cut after %d of %d bytes loads", n, len(b))
			}
		}
	}
}

// FuzzParse: whatever the bytes, no panic, and messages without control bytes.
func FuzzParse(f *testing.F) {
	f.Add(tinyLlama().Bytes())
	f.Add(new(gguftest.Builder).KV("general.architecture", "qwen3").KV("a", []bool{true}).
		KV("b", []float32{1}).KV("c", []string{"x", ""}).Tensor("t", 8, make([]byte, 34), 32).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b)
		if err == nil {
			_, err = ReadConfig(file)
			readAll(file)
		}
		if err != nil {
			checkMessage(t, err)
		}
	})
}

func readAll(f *File) {
	m := &f.KV
	for _, k := range m.Keys() {
		m.String(k)
		m.Bool(k)
		m.Float(k)
		m.Uint(k)
		m.Strings(k)
		m.Ints(k)
		m.Floats(k)
		m.Bools(k)
	}
}

func checkMessage(t *testing.T, err error) {
	t.Helper()
	msg := err.Error()
	if !utf8.ValidString(msg) {
		t.Errorf("message is not UTF-8: %q", msg)
	}
	for _, r := range msg {
		if unicode.IsControl(r) {
			t.Errorf("control character in message %q", msg)
		}
	}
}
