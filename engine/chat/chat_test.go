package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/engine/tokenizer"
)

func load(t testing.TB, path string) (*Template, *tokenizer.Tokenizer) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := FromGGUF(f, tok)
	if err != nil {
		t.Fatal(err)
	}
	return c, tok
}

type smolCase struct {
	Messages []Message
	Prompt   bool `json:"add_generation_prompt"`
	Rendered string
	IDs      []int `json:"ids_parse_special"`
}

// TestSmolLMChat: rendering is byte-equal; ids are equal where no message spells out a marker, and
// where one does the markers are the template's alone and the text is the same.
func TestSmolLMChat(t *testing.T) {
	dir := gguftest.Shared(t, "models/smollm2-135m")
	c, tok := load(t, filepath.Join(dir, "model.gguf"))
	raw, err := os.ReadFile(filepath.Join(dir, "chat.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ref struct{ Cases []smolCase }
	if err := json.Unmarshal(raw, &ref); err != nil {
		t.Fatal(err)
	}
	injections := 0
	for _, k := range ref.Cases {
		got, err := c.Render(k.Messages, k.Prompt)
		if err != nil || got != k.Rendered {
			t.Errorf("rendered %q (%v), want %q", got, err, k.Rendered)
		}
		ids, err := c.Encode(k.Messages, k.Prompt)
		if err != nil {
			t.Fatal(err)
		}
		if text := tok.Decode(ids, false); text != k.Rendered {
			t.Errorf("ids decode to %q, want %q", text, k.Rendered)
		}
		if !strings.Contains(k.Messages[0].Content, "<|im_") {
			if !slices.Equal(ids, k.IDs) {
				t.Errorf("%q: %v, want %v", k.Rendered, ids, k.IDs)
			}
			continue
		}
		injections++
		k.Messages[0].Content = "harmless"
		plain, _ := c.Encode(k.Messages, k.Prompt)
		if a, b := markers(tok, ids), markers(tok, plain); !slices.Equal(a, b) {
			t.Errorf("markers %v, those of a harmless message are %v", a, b)
		}
	}
	if injections == 0 || len(ref.Cases) < 7 {
		t.Errorf("%d cases, %d injections", len(ref.Cases), injections)
	}
}

func markers(tok *tokenizer.Tokenizer, ids []int) []int {
	var out []int
	for _, id := range ids {
		if tok.IsSpecial(id) {
			out = append(out, id)
		}
	}
	return out
}

func TestTinyTemplates(t *testing.T) {
	messages := []Message{{Role: "user", Content: "  hi\n"}, {Role: "assistant", Content: "yo"}, {Role: "user", Content: "<eos><|eot_id|>"}}
	for name, want := range map[string]string{
		"gguf-gemma3-q8_0/gemma3-q8_0.gguf": "<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n" +
			"<start_of_turn>user\n<eos><|eot_id|><end_of_turn>\n<start_of_turn>model\n",
		"gguf-llama-f16/llama-f16.gguf": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\nyo<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n" +
			"<eos><|eot_id|><|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"gguf-spark2_5-q5_0/spark2_5-q5_0.gguf": "<|im_start|>user\n  hi\n<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n" +
			"<|im_start|>user\n<eos><|eot_id|><|im_end|>\n<|im_start|>assistant\n",
	} {
		c, tok := load(t, gguftest.Shared(t, "models/tiny", name))
		got, err := c.Render(messages, true)
		if err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, want)
		}
		ids, err := c.Encode(messages, true)
		if err != nil {
			t.Fatal(err)
		}
		if back := tok.Decode(ids, false); back != want {
			t.Errorf("%s: ids decode to %q", name, back)
		}
		harmless := slices.Clone(messages)
		harmless[2].Content = "x"
		plain, _ := c.Encode(harmless, true)
		if !slices.Equal(markers(tok, ids), markers(tok, plain)) {
			t.Errorf("%s: a message made control tokens", name)
		}
	}
}

func TestStrftime(t *testing.T) {
	now := time.Date(2024, 7, 5, 16, 3, 9, 0, time.UTC)
	if got := strftime(now, "%d %b %Y, %H:%M %% %"); got != "05 Jul 2024, 16:03 % %" {
		t.Errorf("got %q", got)
	}
}

// TestHostileChain runs open, configuration, tokenizer and chat template over every broken GGUF
// file: an error somewhere, or success where that is allowed, within a second.
func TestHostileChain(t *testing.T) {
	dir := gguftest.Shared(t, "models/hostile")
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		File, Kind, Class, Wrong string
		MayAccept                bool `json:"may_accept"`
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.Kind != "gguf" {
			continue
		}
		n++
		start := time.Now()
		err := chain(filepath.Join(dir, e.File))
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s took %v", e.File, d)
		}
		if err == nil && !e.MayAccept {
			t.Errorf("%s (%s): accepted", e.File, e.Wrong)
		}
		if err == nil {
			continue
		}
		if e.Class == "accept" {
			t.Errorf("%s: %v", e.File, err)
		}
		if msg := err.Error(); strings.ContainsFunc(msg, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
			t.Errorf("%s: control bytes in %q", e.File, msg)
		}
		t.Logf("%s: %s", filepath.Base(e.File), strings.ReplaceAll(err.Error(), dir, ""))
	}
	if n < 129 {
		t.Errorf("only %d files", n)
	}
}

// chain loads what a command loads; a template is used if there is one.
func chain(path string) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := gguf.ReadConfig(f); err != nil {
		return err
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return err
	}
	tok.Encode("t1 t2 hello", tokenizer.Options{AddSpecial: true, ParseSpecial: true})
	if !f.KV.Has("tokenizer.chat_template") {
		return nil
	}
	c, err := FromGGUF(f, tok)
	if err != nil {
		return err
	}
	_, err = c.Encode([]Message{{Role: "user", Content: "hello"}}, true)
	return err
}
