package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// byteVocab has every byte, a few merges and markers.
func byteVocab(pre string) Vocab {
	v := Vocab{Model: "gpt2", Pre: pre, BOS: -1, EOS: -1, EOT: -1, EOM: -1, Unk: -1, Pad: -1}
	for _, r := range byteRunes {
		v.Tokens = append(v.Tokens, string(r))
	}
	for _, m := range []string{"l l", "e ll", "h ell", "hell o", "Ġ hello", "1 2"} {
		v.Merges = append(v.Merges, m)
		v.Tokens = append(v.Tokens, strings.Replace(m, " ", "", 1))
	}
	v.Types = slices.Repeat([]Type{Normal}, len(v.Tokens))
	v.Tokens = append(v.Tokens, "<|end|>", "<|end|>x", "<tool>")
	v.Types = append(v.Types, Control, Control, UserDefined)
	v.EOS = len(v.Tokens) - 3
	return v
}

func spmVocab() Vocab {
	v := Vocab{Model: "llama", BOS: 1, EOS: 2, EOT: -1, EOM: -1, Unk: 0, Pad: -1, AddBOS: true, SpacePrefix: true,
		Tokens: []string{"<unk>", "<s>", "</s>", "<0x0A>", spmSpace, "a", "b", "ab", spmSpace + "ab"},
		Types:  []Type{Unknown, Control, Control, Byte, Normal, Normal, Normal, Normal, Normal},
		Scores: []float32{0, 0, 0, 0, -3, -2, -2, -1, -0.5}}
	return v
}

func mustNew(t testing.TB, v Vocab) *Tokenizer {
	t.Helper()
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSPM(t *testing.T) {
	tok := mustNew(t, spmVocab())
	for text, want := range map[string][]int{
		"":        {1},
		"ab":      {1, 8},
		"ab ab":   {1, 8, 8},
		"b\na":    {1, 4, 6, 3, 5},
		"é":       {1, 4, 0},
		"ab</s>a": {1, 8, 2, 4, 5},
	} {
		got := tok.Encode(text, Options{AddSpecial: true, ParseSpecial: true})
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := tok.Decode([]int{1, 8, 8, 3}, true); got != "ab ab\n" {
		t.Errorf("decoded %q", got)
	}
	s := tok.NewStream(true, false)
	if got := s.Push(1) + s.Push(8) + s.Push(8) + s.Flush(); got != "ab ab" {
		t.Errorf("streamed %q", got)
	}
}

func TestSpecialTokens(t *testing.T) {
	tok := mustNew(t, byteVocab("gpt-2"))
	end, _ := tok.ID("<|end|>")
	tool, _ := tok.ID("<tool>")
	if got := tok.Encode("<|end|>x<tool>", Options{ParseSpecial: true}); !slices.Equal(got, []int{end + 1, tool}) {
		t.Errorf("longest match: %v", got)
	}
	got := tok.Encode("<|end|><tool>", Options{})
	if slices.Contains(got, end) || got[len(got)-1] != tool {
		t.Errorf("without special tokens: %v", got)
	}
	if !tok.IsEnd(end) || tok.IsEnd(tool) {
		t.Error("ends")
	}
}

// TestRoundTrip: whatever the text and pre-tokenizer, decoding gives the bytes back, guarded or not.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"llama-bpe", "smollm", "gpt-2", "spark2_5", "default"} {
		tok := mustNew(t, byteVocab(name))
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("hel o12\n\r\t '<|end>x一é。"))),
				rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
			for _, o := range []Options{{}, {ParseSpecial: true}} {
				if got := tok.Decode(tok.Encode(text, o), false); got != text {
					t.Fatalf("%q became %q", text, got)
				}
			}
			const mark = "\ufdd0"
			if strings.Contains(text, mark) {
				return
			}
			ids := tok.EncodeGuarded(tok.Guard(text, mark), mark)
			if got := tok.Decode(ids, false); got != text {
				t.Fatalf("guarded %q became %q", text, got)
			}
			if slices.ContainsFunc(ids, tok.IsSpecial) {
				t.Fatalf("control token from guarded text %q", text)
			}
		})
	}
}

// TestStream: pieces are whole characters and together the text.
func TestStream(t *testing.T) {
	tok := mustNew(t, byteVocab("gpt-2"))
	text := "aé€🎉\xff\xf0z"
	s, got := tok.NewStream(false, true), ""
	for _, id := range tok.Encode("aé€🎉", Options{}) {
		p := s.Push(id)
		if !utf8.ValidString(p) {
			t.Errorf("piece %q", p)
		}
		got += p
	}
	for _, id := range tok.Encode("\xff\xf0z", Options{}) {
		got += s.Push(id)
	}
	if got += s.Flush(); got != text {
		t.Errorf("streamed %q, want %q", got, text)
	}
}

// TestBadVocabularies: what cannot work is refused.
func TestBadVocabularies(t *testing.T) {
	for name, change := range map[string]func(*Vocab){
		"empty":       func(v *Vocab) { v.Tokens = nil },
		"model":       func(v *Vocab) { v.Model = "frob" },
		"pre":         func(v *Vocab) { v.Pre = "frob" },
		"types":       func(v *Vocab) { v.Types = v.Types[1:] },
		"scores":      func(v *Vocab) { v.Scores = []float32{1} },
		"bos":         func(v *Vocab) { v.BOS = len(v.Tokens) },
		"merge":       func(v *Vocab) { v.Merges = []string{"ab"} },
		"merge end":   func(v *Vocab) { v.Merges = []string{"a "} },
		"merge empty": func(v *Vocab) { v.Merges = []string{""} },
	} {
		v := byteVocab("gpt-2")
		change(&v)
		if _, err := New(v); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestLongInput: no input takes quadratic time (each would take minutes).
func TestLongInput(t *testing.T) {
	for _, name := range []string{"llama-bpe", "qwen2", "smollm", "spark2_5", "default"} {
		tok := mustNew(t, byteVocab(name))
		for _, unit := range []string{"hello", " ", "\n", " \n", "<", "'", "1", "<|end", "一", "\u0301"} {
			text := strings.Repeat(unit, 60000/len(unit))
			if got := tok.Decode(tok.Encode(text, Options{}), false); len(got) < len(text)/2 {
				t.Errorf("%s: %d bytes of %q became %d", name, len(text), unit, len(got))
			}
		}
	}
}

func FuzzEncode(f *testing.F) {
	gpt, spm := mustNew(f, byteVocab("spark2_5")), mustNew(f, spmVocab())
	llama := mustNew(f, byteVocab("llama-bpe"))
	f.Add("hello 12 '\n<|end|>")
	f.Add("ab \xff")
	f.Fuzz(func(t *testing.T, text string) {
		spm.Encode(text, Options{true, true})
		for _, tok := range []*Tokenizer{gpt, llama} {
			if got := tok.Decode(tok.Encode(text, Options{true, true}), false); got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}
