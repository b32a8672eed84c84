package tokenizer

import (
	"maps"
	"slices"
	"strings"
)

// preTokenizer cuts text into words by stages, each of which cuts the pieces of the one before: what
// its pattern matches becomes a piece, and so does what lies between matches.
type preTokenizer struct {
	stages     []matcher
	nfc        bool // text is normalised first
	wholeWords bool // a word that is a token needs no merges (ignore_merges)
	addBOS     bool // default of add_bos_token
}

// matcher returns the length of the pattern's match at the start of s, 0 for none.
type matcher func(s string) int

// pres maps tokenizer.ggml.pre to the pre-tokenizer (llama-vocab.cpp).
var pres = func() map[string]preTokenizer {
	llama3 := preTokenizer{stages: []matcher{llama3Word(3)}, wholeWords: true, addBOS: true}
	qwen := preTokenizer{stages: []matcher{llama3Word(1)}, nfc: true}
	digits := preTokenizer{stages: []matcher{oneNumber, gpt2Word}}
	gpt2 := preTokenizer{stages: []matcher{gpt2Word}}
	plain := preTokenizer{stages: []matcher{punctuation, gpt2Strict, numbers, threeDigits}}
	spark := preTokenizer{stages: []matcher{oneNumber, cjk, sparkWord}}
	return map[string]preTokenizer{
		"llama3": llama3, "llama-v3": llama3, "llama-bpe": llama3,
		"dbrx": {stages: llama3.stages}, "smaug-bpe": {stages: llama3.stages},
		"qwen2": qwen, "deepseek-r1-qwen": qwen,
		"smollm": digits, "starcoder": digits, "refact": digits, "command-r": digits,
		"gpt-2": gpt2, "phi-2": gpt2, "spark2_5": spark, "default": plain,
	}
}()

func preNames() string { return strings.Join(slices.Sorted(maps.Keys(pres)), ", ") }

// split calls word for each piece of text, in order; together they are the text.
func (p preTokenizer) split(text string, word func(string)) {
	if text == "" {
		return
	}
	if len(p.stages) == 0 {
		word(text)
		return
	}
	match, rest := p.stages[0], preTokenizer{stages: p.stages[1:]}
	gap := 0 // start of what no match covered yet
	for i := 0; i < len(text); {
		n := match(text[i:])
		if n == 0 {
			i += runeLen(text[i:])
			continue
		}
		rest.split(text[gap:i], word)
		rest.split(text[i:i+n], word)
		i += n
		gap = i
	}
	rest.split(text[gap:], word)
}
