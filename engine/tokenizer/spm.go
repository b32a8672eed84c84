package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// spmSpace stands for a space in SentencePiece vocabularies.
const spmSpace = "\u2581"

// byteToken decodes a token of the form <0x0A>.
func byteToken(text string) (byte, bool) {
	var b byte
	if len(text) != 6 {
		return 0, false
	}
	n, err := fmt.Sscanf(text, "<0x%02X>", &b)
	return b, n == 1 && err == nil
}

// spm is SentencePiece BPE: characters are merged, highest score of the result first; what is no
// token in the end falls back to its bytes.
type spm struct {
	t      *Tokenizer
	bytes  [256]int32
	maxLen int32 // of a token, in bytes
}

func newSPM(t *Tokenizer) func(string, []int) []int {
	m := &spm{t: t}
	for b := range m.bytes {
		m.bytes[b] = t.lookup(fmt.Sprintf("<0x%02X>", b))
	}
	for _, s := range t.v.Tokens {
		m.maxLen = max(m.maxLen, int32(len(s)))
	}
	return m.encode
}

func (m *spm) encode(text string, out []int) []int {
	if m.t.v.SpacePrefix {
		text = " " + text
	}
	text = strings.ReplaceAll(text, " ", spmSpace)
	g := &merger{pair: func(a, b *symbol) (float64, int32, bool) {
		if b.end-a.start > m.maxLen {
			return 0, 0, false
		}
		id, ok := m.t.ids[text[a.start:b.end]]
		return -m.score(id), id, ok
	}}
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		g.add(i, i+n, m.t.lookup(text[i:i+n]))
		i += n
	}
	g.run()
	for _, s := range g.sym {
		switch {
		case s.start < 0:
		case s.id >= 0:
			out = append(out, int(s.id))
		default:
			out = m.fallback(text[s.start:s.end], out)
		}
	}
	return out
}

func (m *spm) score(id int32) float64 {
	if m.t.v.Scores == nil {
		return 0
	}
	return float64(m.t.v.Scores[id])
}

// fallback writes the bytes of a character, or one unknown token if some byte has no token.
func (m *spm) fallback(char string, out []int) []int {
	start := len(out)
	for i := range len(char) {
		id := int(m.bytes[char[i]])
		if id < 0 {
			out = out[:start]
			if m.t.v.Unk >= 0 {
				out = append(out, m.t.v.Unk)
			}
			return out
		}
		out = append(out, id)
	}
	return out
}
