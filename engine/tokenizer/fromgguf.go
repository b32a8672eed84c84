package tokenizer

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/engine/gguf"
)

// FromGGUF builds the tokenizer that a file carries.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	t, err := fromGGUF(f)
	if err != nil && f.Path != "" {
		return nil, fmt.Errorf("%q: %w", f.Path, err)
	}
	return t, err
}

func fromGGUF(f *gguf.File) (*Tokenizer, error) {
	r := reader{kv: &f.KV}
	v := Vocab{
		Model:  get(&r, "model", f.KV.String),
		Pre:    get(&r, "pre", func(k string) (string, error) { return f.KV.StringOr(k, "default") }),
		Tokens: get(&r, "tokens", f.KV.Strings),
		Scores: optional(&r, "scores", f.KV.Floats),
		Merges: optional(&r, "merges", f.KV.Strings),
	}
	for i, k := range optional(&r, "token_type", f.KV.Ints) {
		if k < 0 || k > math.MaxUint8 {
			return nil, fmt.Errorf("tokenizer: type %d of token %d is unknown", k, i)
		}
		v.Types = append(v.Types, Type(k))
	}
	if r.kv.Has(prefix+"token_type") && v.Types == nil {
		v.Types = []Type{}
	}
	spm := v.Model == "llama"
	def := [3]int{-1, -1, -1}
	if spm && len(v.Tokens) > 2 { // llama.cpp's defaults for SentencePiece
		def = [3]int{1, 2, 0}
	}
	v.BOS, v.EOS = r.id("bos_token_id", def[0]), r.id("eos_token_id", def[1])
	v.Unk, v.Pad = r.id("unknown_token_id", def[2]), r.id("padding_token_id", -1)
	v.EOT, v.EOM = r.id("eot_token_id", -1), r.id("eom_token_id", -1)
	v.AddBOS = r.flag("add_bos_token", spm || pres[v.Pre].addBOS && v.Model == "gpt2")
	v.AddEOS = r.flag("add_eos_token", false)
	v.SpacePrefix = r.flag("add_space_prefix", spm)
	if r.err != nil {
		return nil, fmt.Errorf("tokenizer: %w", r.err)
	}
	return New(v)
}

const prefix = "tokenizer.ggml."

// reader remembers the first error.
type reader struct {
	kv  *gguf.Meta
	err error
}

func get[T any](r *reader, name string, f func(string) (T, error)) T {
	v, err := f(prefix + name)
	if r.err == nil {
		r.err = err
	}
	return v
}

func optional[T any](r *reader, name string, f func(string) ([]T, error)) []T {
	if !r.kv.Has(prefix + name) {
		return nil
	}
	return get(r, name, f)
}

func (r *reader) flag(name string, def bool) bool {
	return get(r, name, func(k string) (bool, error) { return r.kv.BoolOr(k, def) })
}

// id reads a token id. The largest uint32 is how writers say none.
func (r *reader) id(name string, def int) int {
	u := get(r, name, func(k string) (uint64, error) { return r.kv.UintOr(k, uint64(uint32(def))) })
	switch {
	case u == math.MaxUint32:
		return -1
	case u > math.MaxInt32:
		return math.MaxInt32 // outside any vocabulary
	}
	return int(u)
}
