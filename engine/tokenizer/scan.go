package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The scanners below are the regular expressions that models were trained with, written out, since
// Go's have no look-ahead. \s is Unicode white space, as unicode.IsSpace.

func runeLen(s string) int { _, n := utf8.DecodeRuneInString(s); return n }

// run is the length of the longest prefix of s whose characters are all in the class.
func run(s string, class func(rune) bool) int {
	for i, r := range s {
		if !class(r) {
			return i
		}
	}
	return len(s)
}

// runMax is run for at most n characters.
func runMax(s string, n int, class func(rune) bool) int {
	for i, r := range s {
		if n == 0 || !class(r) {
			return i
		}
		n--
	}
	return len(s)
}

// one is the length of the first character if it is in the class.
func one(s string, class func(rune) bool) int {
	if r, n := utf8.DecodeRuneInString(s); n > 0 && class(r) {
		return n
	}
	return 0
}

func isNewline(r rune) bool { return r == '\r' || r == '\n' }

func isOther(r rune) bool { // [^\s\p{L}\p{N}]
	return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r)
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// optional space, then a run of the class: " ?X+"
func spaced(s string, class func(rune) bool) int {
	sp := 0
	if s != "" && s[0] == ' ' {
		sp = 1
	}
	if n := run(s[sp:], class); n > 0 {
		return sp + n
	}
	return 0
}

// contraction matches 's 't 're 've 'm 'll 'd.
func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) > 2 && (s[1:3] == "re" || s[1:3] == "ve" || s[1:3] == "ll") {
		return 3
	}
	return 0
}

// spaceRun matches \s+(?!\S): white space up to the end of s, else all but its last character.
func spaceRun(s string) int {
	n := run(s, unicode.IsSpace)
	if n == len(s) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(s[:n])
	return n - last
}

// gpt2Strict: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
func gpt2Strict(s string) int {
	if n := contraction(s); n > 0 {
		return n
	}
	if n := spaced(s, unicode.IsLetter); n > 0 {
		return n
	}
	if n := spaced(s, unicode.IsNumber); n > 0 {
		return n
	}
	if n := spaced(s, isOther); n > 0 {
		return n
	}
	return spaceRun(s)
}

// gpt2Word: gpt2Strict|\s+
func gpt2Word(s string) int {
	if n := gpt2Strict(s); n > 0 {
		return n
	}
	return run(s, unicode.IsSpace)
}

// llama3Word: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama3Word(digits int) matcher {
	return func(s string) int {
		if s[0] == '\'' {
			if n := contraction(strings.ToLower(s[:min(3, len(s))])); n > 0 {
				return n
			}
		}
		lead := one(s, func(r rune) bool {
			return !isNewline(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r)
		})
		if n := run(s[lead:], unicode.IsLetter); n > 0 {
			return lead + n
		}
		if n := runMax(s, digits, unicode.IsNumber); n > 0 {
			return n
		}
		if n := spaced(s, isOther); n > 0 {
			return n + run(s[n:], isNewline)
		}
		if n := lastNewline(s); n > 0 {
			return n
		}
		if n := spaceRun(s); n > 0 {
			return n
		}
		return run(s, unicode.IsSpace)
	}
}

// lastNewline matches \s*[\r\n]+: white space up to and with its last newline.
func lastNewline(s string) int {
	return strings.LastIndexAny(s[:run(s, unicode.IsSpace)], "\r\n") + 1
}

func oneNumber(s string) int { return one(s, unicode.IsNumber) }

func numbers(s string) int { return run(s, unicode.IsNumber) }

// threeDigits: [0-9][0-9][0-9]
func threeDigits(s string) int {
	if n := runMax(s, 3, isDigit); n == 3 {
		return n
	}
	return 0
}

// punctuation: [\p{P}\$\+<=>\^~\|]+
func punctuation(s string) int {
	return run(s, func(r rune) bool { return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^~|", r) })
}

// cjk: [\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+
func cjk(s string) int {
	return run(s, func(r rune) bool { return r >= 0x4e00 && r <= 0x9fa5 || r >= 0x3040 && r <= 0x30ff })
}

// sparkWord: [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
func sparkWord(s string) int {
	if c := s[0]; c > ' ' && c < 0x7f && !isASCIIAlnum(rune(c)) {
		if n := run(s[1:], isASCIILetter); n > 0 {
			return 1 + n
		}
	}
	mark := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }
	sign := func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	lead := one(s, func(r rune) bool { return !isNewline(r) && !unicode.IsLetter(r) && !sign(r) })
	if n := run(s[lead:], mark); n > 0 {
		return lead + n
	}
	if n := run(s, mark); n > 0 { // the optional character gives way to a lone mark
		return n
	}
	if n := spaced(s, sign); n > 0 {
		return n
	}
	if n := one(s, isNewline); n > 0 {
		return n
	}
	if n := spaceRun(s); n > 0 {
		return n
	}
	return run(s, unicode.IsSpace)
}

func isASCIILetter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80 }

func isASCIIAlnum(r rune) bool { return isASCIILetter(r) || isDigit(r) }
