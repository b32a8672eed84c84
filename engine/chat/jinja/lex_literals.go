package jinja

import "strings"

func (l *lexer) number() {
	n, kind := 0, tokInt
	rest := l.src[l.pos:]
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_') {
		n++
	}
	if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		kind = tokFloat
		for n++; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; {
			n++
		}
	}
	l.emit(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.pos += n
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"", '0': "\x00"}

func (l *lexer) quoted(q byte) {
	var b strings.Builder
	start := l.line
	for i := l.pos + 1; i < len(l.src); i++ {
		switch c := l.src[i]; {
		case c == q:
			l.toks = append(l.toks, token{tokString, b.String(), start})
			l.pos = i + 1
			return
		case c == '\\' && i+1 < len(l.src):
			i += l.escape(&b, l.src[i+1:])
		default:
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
		}
	}
	fail("line %d: string is not closed", start)
}

// escape writes what follows a backslash and returns its length.
func (l *lexer) escape(b *strings.Builder, s string) int {
	if e, ok := escapes[s[0]]; ok {
		b.WriteString(e)
		return 1
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits > 0 && len(s) > digits {
		if r, ok := hex(s[1 : 1+digits]); ok {
			b.WriteRune(r)
			return 1 + digits
		}
	}
	b.WriteByte('\\') // as Python: an unknown escape stays
	b.WriteByte(s[0])
	return 1
}

func hex(s string) (rune, bool) {
	var r rune
	for i := range len(s) {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}
