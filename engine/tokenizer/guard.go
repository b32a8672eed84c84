package tokenizer

import "strings"

// Guard puts mark before every control token that text spells out, so that EncodeGuarded takes it
// for ordinary text, also after the text became part of a longer one. The mark must not occur in
// either. User-defined tokens are text and stay tokens.
func (t *Tokenizer) Guard(text, mark string) string {
	var b strings.Builder
	for text != "" {
		at, size, id := t.special.find(text, true)
		b.WriteString(text[:at])
		if size == 0 {
			break
		}
		if t.IsSpecial(int(id)) {
			b.WriteString(mark)
			size = 1 // others may begin inside
		}
		b.WriteString(text[at : at+size])
		text = text[at+size:]
	}
	return b.String()
}

// EncodeGuarded is Encode with ParseSpecial, except that control tokens after a mark are text. Marks
// leave no trace in the result.
func (t *Tokenizer) EncodeGuarded(text, mark string) []int {
	out := make([]int, 0, len(text)/3+2)
	plain := func(s string) {
		if s = strings.ReplaceAll(s, mark, ""); s != "" {
			out = t.words(s, out)
		}
	}
	start := 0 // of what is not encoded yet
	for pos := 0; pos < len(text); {
		at, size, id := t.special.find(text[pos:], true)
		at += pos
		if size > 0 && t.IsSpecial(int(id)) && strings.HasSuffix(text[:at], mark) {
			pos = at + 1
			continue
		}
		plain(text[start:at])
		if size > 0 {
			out = append(out, int(id))
		}
		start, pos = at+size, at+size
		if size == 0 {
			break
		}
	}
	return out
}
