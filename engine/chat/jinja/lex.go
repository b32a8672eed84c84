package jinja

import (
	"strings"
	"unicode/utf8"
)

type tokKind int

const (
	tokEOF  tokKind = iota
	tokData         // text between tags
	tokExpr         // {{
	tokStmt         // {%
	tokEnd          // }} or %}
	tokName
	tokInt
	tokFloat
	tokString
	tokOp
)

type token struct {
	kind tokKind
	text string
	line int
}

type lexer struct {
	src  string
	pos  int
	line int
	toks []token
}

// lex cuts a template into tokens and applies white-space control: "-" strips all white space on its
// side; a block or comment tag strips the blanks before it on its line and the newline after it.
func lex(src string) []token {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1}
	trim := "" // characters to strip at the start of the next text: all white space, or one newline
	for l.pos < len(src) {
		at := l.nextTag()
		text := src[l.pos:at]
		lines := strings.Count(text, "\n")
		switch {
		case trim == "all":
			text = strings.TrimLeft(text, " \t\n\r\f\v")
		case trim == "newline":
			text = strings.TrimPrefix(text, "\n")
		}
		if at == len(src) {
			l.emit(tokData, text)
			break
		}
		l.emit(tokData, l.stripBefore(text, at))
		l.line += lines
		l.pos = at
		trim = l.tag()
	}
	l.emit(tokEOF, "")
	return l.toks
}

func (l *lexer) emit(k tokKind, text string) {
	if k != tokData || text != "" {
		l.toks = append(l.toks, token{k, text, l.line})
	}
}

// nextTag finds the next {{, {% or {#.
func (l *lexer) nextTag() int {
	for i := l.pos; i+1 < len(l.src); i++ {
		if c := l.src[i+1]; l.src[i] == '{' && (c == '{' || c == '%' || c == '#') {
			return i
		}
	}
	return len(l.src)
}

func (l *lexer) stripBefore(text string, at int) string {
	mark := byte(0)
	if at+2 < len(l.src) {
		mark = l.src[at+2]
	}
	if mark == '-' {
		return strings.TrimRight(text, " \t\n\r\f\v")
	}
	if l.src[at+1] == '{' || mark == '+' {
		return text
	}
	blank := strings.TrimRight(text, " \t")
	if strings.HasSuffix(blank, "\n") || blank == "" && (at-len(text) == 0 || l.src[at-len(text)-1] == '\n') {
		return blank
	}
	return text
}

// tag reads one tag and says what to strip after it.
func (l *lexer) tag() string {
	switch l.src[l.pos+1] {
	case '#':
		end := strings.Index(l.src[l.pos+2:], "#}")
		if end < 0 {
			fail("line %d: comment is not closed", l.line)
		}
		end += l.pos + 2
		trim := after(l.src[end-1], true)
		l.line += strings.Count(l.src[l.pos:end], "\n")
		l.pos = end + 2
		return trim
	case '{':
		l.open(tokExpr)
		return after(l.inside("}}"), false)
	}
	start := len(l.toks)
	l.open(tokStmt)
	trim := after(l.inside("%}"), true)
	if t := l.toks[start:]; len(t) == 3 && t[1].kind == tokName && t[1].text == "raw" {
		l.toks = l.toks[:start]
		return l.raw(trim)
	}
	return trim
}

func after(mark byte, block bool) string {
	switch {
	case mark == '-':
		return "all"
	case block && mark != '+':
		return "newline"
	}
	return ""
}

func (l *lexer) open(k tokKind) {
	l.emit(k, "")
	l.pos += 2
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.pos++
	}
}

// raw copies text up to {% endraw %}.
func (l *lexer) raw(trim string) string {
	rest := l.src[l.pos:]
	for i := 0; ; i += 2 {
		n := strings.Index(rest[i:], "{%")
		if n < 0 {
			fail("line %d: raw is not closed", l.line)
		}
		i += n
		tag := strings.TrimLeft(rest[i+2:], "-+ \t\n")
		if !strings.HasPrefix(tag, "endraw") {
			continue
		}
		close := strings.Index(rest[i:], "%}")
		if close < 0 {
			fail("line %d: raw is not closed", l.line)
		}
		text := rest[:i]
		if trim == "all" {
			text = strings.TrimLeft(text, " \t\n")
		} else if trim == "newline" {
			text = strings.TrimPrefix(text, "\n")
		}
		if rest[i+2] == '-' {
			text = strings.TrimRight(text, " \t\n")
		}
		l.emit(tokData, text)
		l.line += strings.Count(rest[:i+close], "\n")
		l.pos += i + close + 2
		return after(rest[i+close-1], true)
	}
}

// inside reads the tokens of a tag up to its end and returns the mark before it.
func (l *lexer) inside(end string) byte {
	depth := 0 // of brackets: "}}" may close two dictionaries
	for l.pos < len(l.src) {
		c, rest := l.src[l.pos], l.src[l.pos:]
		switch {
		case c == '\n':
			l.line++
			l.pos++
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case depth == 0 && strings.HasPrefix(rest, end):
			l.emit(tokEnd, "")
			l.pos += 2
			return 0
		case depth == 0 && (c == '-' || c == '+') && strings.HasPrefix(rest[1:], end):
			l.emit(tokEnd, "")
			l.pos += 3
			return c
		case c == '"' || c == '\'':
			l.quoted(c)
		case c >= '0' && c <= '9':
			l.number()
		case isName(c):
			n := 1
			for n < len(rest) && (isName(rest[n]) || rest[n] >= '0' && rest[n] <= '9') {
				n++
			}
			l.emit(tokName, rest[:n])
			l.pos += n
		default:
			depth += l.operator(rest)
		}
	}
	fail("line %d: tag is not closed by %s", l.line, end)
	return 0
}

func isName(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

func (l *lexer) operator(rest string) int {
	for _, op := range []string{"**", "//", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(rest, op) {
			l.emit(tokOp, op)
			l.pos += 2
			return 0
		}
	}
	if !strings.Contains("+-*/%~<>=()[]{}.,:|", rest[:1]) {
		fail("line %d: unexpected character %q", l.line, rest[:1])
	}
	l.emit(tokOp, rest[:1])
	l.pos++
	switch rest[0] {
	case '(', '[', '{':
		return 1
	case ')', ']', '}':
		return -1
	}
	return 0
}
