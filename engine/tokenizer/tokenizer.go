package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Type classifies a token, as numbered in GGUF files.
type Type uint8

const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3
	UserDefined Type = 4
	Unused      Type = 5
	Byte        Type = 6
)

// Vocab is what a checkpoint says about its tokenizer. Ids of -1 mean none.
type Vocab struct {
	Model  string // "gpt2": byte-level BPE by merges; "llama": SentencePiece BPE by scores
	Pre    string // gpt2: name of the pre-tokenizer
	Tokens []string
	Types  []Type    // one for each token, or nil: all Normal
	Scores []float32 // llama: one for each token, or nil: all 0
	Merges []string  // gpt2: "left right", best first

	BOS, EOS, EOT, EOM, Unk, Pad int
	AddBOS, AddEOS               bool
	SpacePrefix                  bool // llama: a space goes before text
}

// Tokenizer encodes and decodes. It is safe for concurrent use.
type Tokenizer struct {
	v       Vocab
	ids     map[string]int32
	special *trie // control, unknown and user-defined tokens
	words   func(text string, out []int) []int
	eog     []int
}

// Options of Encode.
type Options struct {
	AddSpecial   bool // add what the vocabulary asks for at the ends: bos, eos
	ParseSpecial bool // text of control tokens becomes those tokens; never set it for text of users
}

// New checks a vocabulary and builds its tokenizer. Of tokens with the same text the first counts.
func New(v Vocab) (*Tokenizer, error) {
	n := len(v.Tokens)
	if n == 0 {
		return nil, fmt.Errorf("tokenizer: the vocabulary is empty")
	}
	if v.Types != nil && len(v.Types) != n {
		return nil, fmt.Errorf("tokenizer: %d token types for %d tokens", len(v.Types), n)
	}
	if v.Scores != nil && len(v.Scores) != n {
		return nil, fmt.Errorf("tokenizer: %d scores for %d tokens", len(v.Scores), n)
	}
	if i := slices.IndexFunc(v.Scores, func(s float32) bool { return math.IsNaN(float64(s)) }); i >= 0 {
		return nil, fmt.Errorf("tokenizer: the score of token %d is NaN", i)
	}
	for name, id := range map[string]int{"bos": v.BOS, "eos": v.EOS, "eot": v.EOT, "eom": v.EOM, "unknown": v.Unk, "padding": v.Pad} {
		if id < -1 || id >= n {
			return nil, fmt.Errorf("tokenizer: the %s token id %d is outside the vocabulary of %d", name, id, n)
		}
	}
	t := &Tokenizer{v: v, ids: make(map[string]int32, n), special: newTrie()}
	for i, s := range v.Tokens {
		if _, dup := t.ids[s]; !dup {
			t.ids[s] = int32(i)
		}
		if k := t.Type(i); s != "" && (k == Control || k == UserDefined || k == Unknown) {
			t.special.add(s, int32(i), k == UserDefined)
		}
	}
	t.findEnds()
	return t, t.build()
}

func (t *Tokenizer) build() (err error) {
	switch t.v.Model {
	case "gpt2":
		t.words, err = newBPE(t)
	case "llama":
		t.words = newSPM(t)
	default:
		err = fmt.Errorf("tokenizer: unsupported tokenizer %q (gpt2 and llama are)", t.v.Model)
	}
	return err
}

// endTexts end a turn or a text in some family, whatever the ids of the file say (llama.cpp's list).
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>",
	"<|end_of_text|>", "<EOT>", "<end_of_utterance>",
}

func (t *Tokenizer) findEnds() {
	add := func(id int) {
		if id >= 0 && !slices.Contains(t.eog, id) {
			t.eog = append(t.eog, id)
		}
	}
	add(t.v.EOS)
	add(t.v.EOT)
	add(t.v.EOM)
	for _, s := range endTexts {
		if id, ok := t.ids[s]; ok && t.Type(int(id)) == Control {
			add(int(id))
		}
	}
}

// Size is the number of tokens.
func (t *Tokenizer) Size() int { return len(t.v.Tokens) }

// Vocab returns what the tokenizer was made from; its slices must not be changed.
func (t *Tokenizer) Vocab() Vocab { return t.v }

// BOS is the id of the token that begins a text, -1 for none.
func (t *Tokenizer) BOS() int { return t.v.BOS }

// EOS is the id of the token that ends a text, -1 for none.
func (t *Tokenizer) EOS() int { return t.v.EOS }

// EndIDs are the ids that end generation: eos, end of turn, end of message.
func (t *Tokenizer) EndIDs() []int { return slices.Clone(t.eog) }

// IsEnd reports whether an id ends generation.
func (t *Tokenizer) IsEnd(id int) bool { return slices.Contains(t.eog, id) }

// Type classifies a token; ids outside the vocabulary are Unused.
func (t *Tokenizer) Type(id int) Type {
	switch {
	case id < 0 || id >= len(t.v.Tokens):
		return Unused
	case t.v.Types == nil:
		return Normal
	}
	return t.v.Types[id]
}

// ID finds the token with a text as stored in the vocabulary.
func (t *Tokenizer) ID(text string) (int, bool) {
	id, ok := t.ids[text]
	return int(id), ok
}

// Text is a token as stored in the vocabulary, "" outside it.
func (t *Tokenizer) Text(id int) string {
	if id < 0 || id >= len(t.v.Tokens) {
		return ""
	}
	return t.v.Tokens[id]
}

// Encode turns text, which need not be valid UTF-8, into ids. Bytes that the vocabulary has no token
// for are dropped by byte-level BPE and become the unknown token, if there is one, in SentencePiece.
func (t *Tokenizer) Encode(text string, o Options) []int {
	out := make([]int, 0, len(text)/3+2)
	if o.AddSpecial && t.v.AddBOS && t.v.BOS >= 0 {
		out = append(out, t.v.BOS)
	}
	for text != "" {
		at, size, id := t.special.find(text, o.ParseSpecial)
		if at > 0 {
			out = t.words(text[:at], out)
		}
		if size > 0 {
			out = append(out, int(id))
		}
		text = text[at+size:]
	}
	if o.AddSpecial && t.v.AddEOS && t.v.EOS >= 0 {
		out = append(out, t.v.EOS)
	}
	return out
}

// Piece is the bytes that a token stands for, special tokens as their text.
func (t *Tokenizer) Piece(id int) []byte {
	text := t.Text(id)
	switch t.Type(id) {
	case Control, Unknown, UserDefined:
		return []byte(text)
	case Byte:
		if b, ok := byteToken(text); ok {
			return []byte{b}
		}
	}
	if t.v.Model == "llama" {
		return []byte(strings.ReplaceAll(text, spmSpace, " "))
	}
	return byteLevelDecode(text)
}

// Decode joins pieces; dropSpecial leaves out control and unknown tokens. Where the vocabulary puts
// a space before text, one is taken off again. The result may be invalid UTF-8.
func (t *Tokenizer) Decode(ids []int, dropSpecial bool) string {
	var b strings.Builder
	for _, id := range ids {
		if !dropSpecial || !t.IsSpecial(id) {
			b.Write(t.Piece(id))
		}
	}
	if t.v.Model == "llama" && t.v.SpacePrefix {
		return strings.TrimPrefix(b.String(), " ")
	}
	return b.String()
}

// IsSpecial reports whether a token is a marker and not text: control or unknown.
func (t *Tokenizer) IsSpecial(id int) bool {
	k := t.Type(id)
	return k == Control || k == Unknown
}
