package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tilewright/tilewright/engine/chat/jinja"
	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/tokenizer"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string         `json:"role"` // system, user, assistant, tool
	Content string         `json:"content"`
	Extra   map[string]any `json:"-"` // what else a template may look at, as jinja.Template.Render takes it
}

// Template renders and encodes conversations. It is safe for concurrent use.
type Template struct {
	Now func() time.Time // for templates that show the date

	source string
	jinja  *jinja.Template
	tok    *tokenizer.Tokenizer
}

// New parses a chat template. A template that cannot be parsed is an error here, so ask for it when
// a chat is wanted: the model itself runs without.
func New(source string, tok *tokenizer.Tokenizer) (*Template, error) {
	j, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &Template{Now: time.Now, source: source, jinja: j, tok: tok}, nil
}

// FromGGUF takes the template of a file.
func FromGGUF(f *gguf.File, tok *tokenizer.Tokenizer) (*Template, error) {
	source, err := f.KV.String("tokenizer.chat_template")
	if err != nil {
		return nil, fmt.Errorf("the model carries no chat template: %w", err)
	}
	return New(source, tok)
}

// Render is the text that the template makes of a conversation; with addGenerationPrompt it ends
// where the assistant's next turn begins.
func (t *Template) Render(messages []Message, addGenerationPrompt bool) (string, error) {
	return t.render(messages, addGenerationPrompt, func(s string) string { return s })
}

// Encode is the ids of a conversation. Control tokens come from the template alone; those that
// messages spell out are encoded as text. Nothing is added in front: templates write bos themselves.
func (t *Template) Encode(messages []Message, addGenerationPrompt bool) ([]int, error) {
	mark, err := t.mark(messages)
	if err != nil {
		return nil, err
	}
	text, err := t.render(messages, addGenerationPrompt, func(s string) string { return t.tok.Guard(s, mark) })
	if err != nil {
		return nil, err
	}
	return t.tok.EncodeGuarded(text, mark), nil
}

// mark finds a noncharacter that occurs nowhere, to be put before control tokens in messages.
func (t *Template) mark(messages []Message) (string, error) {
	var all strings.Builder
	all.WriteString(t.source)
	for _, m := range messages {
		mapText(m.dict(), func(s string) string { all.WriteString(s); return s })
	}
	for r := rune(0xfdd0); r <= 0xfdef; r++ {
		if !strings.ContainsRune(all.String(), r) {
			return string(r), nil
		}
	}
	return "", fmt.Errorf("the messages hold every Unicode noncharacter; remove them")
}

func (m Message) dict() jinja.Dict {
	d := jinja.Dict{{Key: "role", Value: m.Role}, {Key: "content", Value: m.Content}}
	for _, k := range slices.Sorted(maps.Keys(m.Extra)) {
		d = append(d, jinja.Item{Key: k, Value: m.Extra[k]})
	}
	return d
}

// mapText applies f to every text in a value, keys included.
func mapText(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = mapText(x, f)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[f(k)] = mapText(x, f)
		}
		return out
	case jinja.Dict:
		out := make(jinja.Dict, len(v))
		for i, it := range v {
			out[i] = jinja.Item{Key: f(it.Key), Value: mapText(it.Value, f)}
		}
		return out
	}
	return v
}

func (t *Template) render(messages []Message, prompt bool, text func(string) string) (string, error) {
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = mapText(m.dict(), text)
	}
	v := t.tok.Vocab()
	out, err := t.jinja.Render(map[string]any{
		"messages": list, "add_generation_prompt": prompt, "tools": nil, "documents": nil,
		"bos_token": t.tok.Text(v.BOS), "eos_token": t.tok.Text(v.EOS),
		"unk_token": t.tok.Text(v.Unk), "pad_token": t.tok.Text(v.Pad),
		"strftime_now": jinja.Func(func(c *jinja.Call) any { return strftime(t.Now(), c.Text(0)) }),
	})
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return out, nil
}

// layouts are Go's forms of the letters of strftime.
var layouts = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan",
	'A': "Monday", 'a': "Mon", 'y': "06", 'I': "03", 'p': "PM", 'j': "002", 'e': "_2", 'Z': "MST",
	'z': "-0700",
}

func strftime(now time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if l, ok := layouts[format[i]]; ok {
			b.WriteString(now.Format(l))
		} else {
			b.WriteString(strings.TrimPrefix(format[i-1:i+1], "%"))
		}
	}
	return b.String()
}
