package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// byteRunes maps a byte to the character that stands for it in byte-level vocabularies (GPT-2's
// bytes_to_unicode): printable Latin-1 is itself, the rest counts up from U+0100.
var byteRunes, runeBytes = byteTables()

func byteTables() (to [256]rune, from map[rune]byte) {
	from = make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			r, next = next, next+1
		}
		to[b], from[r] = r, byte(b)
	}
	return to, from
}

// byteLevelDecode turns stored characters back into bytes; others stay as they are.
func byteLevelDecode(text string) []byte {
	out := make([]byte, 0, len(text))
	for i, r := range text {
		if b, ok := runeBytes[r]; ok {
			out = append(out, b)
		} else if r != utf8.RuneError {
			out = utf8.AppendRune(out, r)
		} else {
			out = append(out, text[i])
		}
	}
	return out
}

type merge struct{ rank, id int32 }

// bpe is byte-level BPE: text is cut into words, words into bytes, and bytes are merged by rank.
type bpe struct {
	t      *Tokenizer
	pre    preTokenizer
	bytes  [256]int32 // id of each byte, -1 where there is no token
	merges map[uint64]merge
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func newBPE(t *Tokenizer) (func(string, []int) []int, error) {
	p, ok := pres[t.v.Pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer: unknown pre-tokenizer %q (known: %s)", t.v.Pre, preNames())
	}
	m := &bpe{t: t, pre: p, merges: make(map[uint64]merge, len(t.v.Merges))}
	for b, r := range byteRunes {
		m.bytes[b] = t.lookup(string(r))
	}
	var joined []byte
	for rank, s := range t.v.Merges {
		cut := strings.IndexByte(s[min(1, len(s)):], ' ') + 1
		if cut == 0 || cut == len(s)-1 {
			return nil, fmt.Errorf("tokenizer: malformed merge %d: %q is not two tokens and a space", rank, s)
		}
		joined = append(append(joined[:0], s[:cut]...), s[cut+1:]...)
		a, b := t.lookup(s[:cut]), t.lookup(s[cut+1:])
		id, ok := t.ids[string(joined)]
		key := pairKey(a, b)
		if _, dup := m.merges[key]; a < 0 || b < 0 || !ok || dup {
			continue // a merge of tokens that do not exist can never apply
		}
		m.merges[key] = merge{int32(rank), id}
	}
	return m.encode, nil
}

func (t *Tokenizer) lookup(s string) int32 {
	if id, ok := t.ids[s]; ok {
		return id
	}
	return -1
}

func (m *bpe) pair(a, b *symbol) (float64, int32, bool) {
	if a.id < 0 || b.id < 0 {
		return 0, 0, false
	}
	x, ok := m.merges[pairKey(a.id, b.id)]
	return float64(x.rank), x.id, ok
}

func (m *bpe) encode(text string, out []int) []int {
	if m.pre.nfc {
		text = norm.NFC.String(text)
	}
	g := &merger{pair: m.pair}
	var stored []byte
	m.pre.split(text, func(word string) {
		if m.pre.wholeWords {
			stored = stored[:0]
			for i := range len(word) {
				stored = utf8.AppendRune(stored, byteRunes[word[i]])
			}
			if id, ok := m.t.ids[string(stored)]; ok {
				out = append(out, int(id))
				return
			}
		}
		g.reset()
		for i := range len(word) {
			g.add(i, i+1, m.bytes[word[i]])
		}
		g.run()
		for _, s := range g.sym {
			if s.start >= 0 && s.id >= 0 {
				out = append(out, int(s.id))
			}
		}
	})
	return out
}
