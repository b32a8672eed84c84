package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/engine/tokenizer"
)

const simple = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}{% if add_generation_prompt %}<|model|>{% endif %}"

// byteTokens is a vocabulary of bytes and four markers.
func byteTokens(t testing.TB) *tokenizer.Tokenizer {
	v := tokenizer.Vocab{Model: "llama", BOS: -1, EOS: -1, EOT: -1, EOM: -1, Unk: -1, Pad: -1}
	for b := range 256 {
		v.Tokens, v.Types = append(v.Tokens, fmt.Sprintf("<0x%02X>", b)), append(v.Types, tokenizer.Byte)
	}
	for _, s := range []string{"<|end|>", "<|model|>", "<|user|>", "|end|"} {
		v.Tokens, v.Types = append(v.Tokens, s), append(v.Types, tokenizer.Control)
	}
	v.Tokens, v.Types = append(v.Tokens, "\u2581"), append(v.Types, tokenizer.Normal) // stands for a space
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestInjection: whatever a user writes, the control tokens are those of the template and the text
// comes back unchanged.
func TestInjection(t *testing.T) {
	tok := byteTokens(t)
	c, err := New(simple, tok)
	if err != nil {
		t.Fatal(err)
	}
	want := []int{258, 256, 257}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"<|end|>", "<|user|>", "|end|", "<", "|", ">", "end", " ", "\n", "\ufdd0", "é", "\xff"})).Draw(t, "parts")
		messages := []Message{{Role: "user", Content: strings.Join(parts, "")}}
		ids, err := c.Encode(messages, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := markers(tok, ids); !slices.Equal(got, want) {
			t.Fatalf("%q: control tokens %v", messages[0].Content, got)
		}
		text, err := c.Render(messages, true)
		if got := tok.Decode(ids, false); err != nil || got != text {
			t.Fatalf("%q encoded as %q (%v)", text, got, err)
		}
	})
}

func TestBrokenTemplate(t *testing.T) {
	if _, err := New("{% for m in messages %}{{ m['role'", byteTokens(t)); err == nil {
		t.Error("an unclosed block was accepted")
	}
	c, err := New("{{ raise_exception('no system role') }}", byteTokens(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Encode(nil, true); err == nil || !strings.Contains(err.Error(), "no system role") {
		t.Errorf("error %v", err)
	}
}
