package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stream decodes token by token and holds back the bytes of a character that is not complete.
type Stream struct {
	t           *Tokenizer
	dropSpecial bool
	trim        bool // a leading space is still to be taken off
	held        []byte
}

// NewStream starts a stream; dropSpecial leaves out control and unknown tokens. For text that
// continues a prompt, a leading space is part of the text and kept.
func (t *Tokenizer) NewStream(dropSpecial, continues bool) *Stream {
	return &Stream{t: t, dropSpecial: dropSpecial, trim: !continues && t.v.Model == "llama" && t.v.SpacePrefix}
}

// Push adds a token and returns the text that became complete, perhaps none. Bytes that can belong
// to no character are passed on as they are.
func (s *Stream) Push(id int) string {
	if s.dropSpecial && s.t.IsSpecial(id) {
		return ""
	}
	s.held = append(s.held, s.t.Piece(id)...)
	n := complete(s.held)
	out := string(s.held[:n])
	s.held = append(s.held[:0], s.held[n:]...)
	if s.trim && out != "" {
		s.trim = false
		out = strings.TrimPrefix(out, " ")
	}
	return out
}

// Flush returns what is held back and empties the stream.
func (s *Stream) Flush() string {
	out := string(s.held)
	s.held = s.held[:0]
	return out
}

// complete is the length of b without a character that is still incomplete at its end.
func complete(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}
