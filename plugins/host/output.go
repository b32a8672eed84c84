package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	headBytes = 16 << 10 // of stderr, kept to classify a crash: its first lines say what it was
	lineBytes = 4 << 10  // of one line, the rest is dropped
)

// head keeps the first bytes of a stream.
type head struct {
	mu  sync.Mutex
	buf []byte
}

func (h *head) add(line []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := headBytes - len(h.buf); room > 0 {
		h.buf = append(append(h.buf, line[:min(len(line), room)]...), '\n')
	}
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.buf)
}

// eachLine calls f with every line of r, without its end, cut at lineBytes. Memory is bounded
// whatever comes.
func eachLine(r io.Reader, f func(line []byte)) {
	br := bufio.NewReaderSize(r, lineBytes)
	for {
		line, more, err := br.ReadLine()
		if err != nil {
			return
		}
		f(line)
		for more && err == nil {
			_, more, err = br.ReadLine()
		}
	}
}

// logLine passes one line of a plugin's stderr to the host's log. JSON lines with the keys of
// go-plugin keep level and attributes; anything else, well-formed or not, is logged as text.
func logLine(log *slog.Logger, line []byte) {
	level, msg, attrs, ok := parseLog(line)
	if !ok {
		level, msg = slog.LevelDebug, printable(line)
	}
	log.Log(context.Background(), level, msg, attrs...)
}

func parseLog(line []byte) (slog.Level, string, []any, bool) {
	line = bytes.TrimSpace(line)
	var m map[string]any
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &m) != nil {
		return 0, "", nil, false
	}
	msg, ok := m["@message"].(string)
	if !ok {
		return 0, "", nil, false
	}
	var level slog.Level
	if s, ok := m["@level"].(string); !ok || level.UnmarshalText([]byte(s)) != nil {
		level = slog.LevelDebug
	}
	var attrs []any
	for k, v := range m {
		if !strings.HasPrefix(k, "@") {
			attrs = append(attrs, slog.Any(k, v))
		}
	}
	return level, msg, attrs, true
}

// printable makes a line safe to show: valid UTF-8 without control characters.
func printable(line []byte) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(line), "?"))
}
