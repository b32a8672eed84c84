// Package wire is the conversation between the tuner and a runner: length-prefixed JSON over an
// inherited socket, one job in flight, a nonce echoed by every reply. A runner executes generated
// code, so its death is an answer too.
package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxFrame bounds one message: a job carries artifacts, which are a few KB each.
const MaxFrame = 64 << 20

// Request is one job.
type Request struct {
	Nonce string          `json:"nonce"`
	Op    string          `json:"op"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// Receipt says who executed a job and what ran: a sample whose receipt does not match its arm does
// not count.
type Receipt struct {
	PID   int              `json:"pid"`
	Start uint64           `json:"start"` // clock ticks after boot, from /proc/self/stat
	Exe   string           `json:"exe"`   // sha256 of the executable
	Nonce string           `json:"nonce"`
	Calls map[string]int64 `json:"calls,omitempty"` // artifact digest -> calls
	Bytes int64            `json:"bytes"`           // weight bytes streamed
	// Workers says how many workers took part, nil where that is not known.
	Workers *Workers `json:"workers,omitempty"`
}

// Workers is the most workers that a region was handed to and reported it done: of passes over one row,
// and over more; 0 where no such pass ran.
type Workers struct {
	Decode  int `json:"decode"`
	Prefill int `json:"prefill"`
}

// Reply answers a request.
type Reply struct {
	Nonce   string          `json:"nonce"`
	Error   string          `json:"error,omitempty"`
	Receipt Receipt         `json:"receipt"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// Ask is what a runner wants to know while a job runs: the tuner answers with an Answer before it
// sends anything else.
type Ask struct {
	Op   string          `json:"op"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Answer answers an Ask.
type Answer struct {
	Error       string          `json:"error,omitempty"`
	Unsupported bool            `json:"unsupported,omitempty"` // no backend does it: not a failure
	Body        json.RawMessage `json:"body,omitempty"`
}

// Message is what a runner sends: an Ask or, at the end of a job, a Reply.
type Message struct {
	Ask   *Ask   `json:"ask,omitempty"`
	Reply *Reply `json:"reply,omitempty"`
}

// ErrFrame is wrapped by every malformed message.
var ErrFrame = errors.New("malformed runner message")

// Write sends one message.
func Write(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("runner message: %w", err)
	}
	if len(b) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrame, len(b), MaxFrame)
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, len(b)+4), uint32(len(b)))
	_, err = w.Write(append(frame, b...))
	return err
}

// Read receives one message. A clean end of the stream is io.EOF.
func Read(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return fmt.Errorf("%w: claims %d bytes, the limit is %d", ErrFrame, n, MaxFrame)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(body) != int(n) {
		return fmt.Errorf("%w: cut short at %d of %d bytes", ErrFrame, len(body), n)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return nil
}

// NewNonce is 128 random bits in hex.
func NewNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
