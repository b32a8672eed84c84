// Package journal records every finished piece of a tune, one JSON line each, so that a tune killed
// at any moment resumes without repeating finished work. A line is on disk before its result is used.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Record is one line: what was done (Kind, Key) and its result.
type Record struct {
	Kind string          `json:"kind"`
	Key  string          `json:"key"`
	Body json.RawMessage `json:"body,omitempty"`
}

// header is the first line: a journal of another session is not resumed.
type header struct {
	Journal int    `json:"journal"`
	Session string `json:"session"`
}

// version changes with the meaning of what is recorded: what another judge measured is not resumed.
const version = 3

// Journal is an append-only log of one session. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	f    *os.File
	done map[string]json.RawMessage
	path string
}

// Open resumes the journal at path if it was written for session, else starts it anew. A last line
// cut short by a kill is dropped. The file is private and never reached through a link.
func Open(path, session string) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{f: f, done: map[string]json.RawMessage{}, path: path}
	end, err := j.load(session)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err == nil && end == 0 {
		err = j.line(header{version, session})
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

// load reads the finished records and returns where the valid part ends.
func (j *Journal) load(session string) (int64, error) {
	r := bufio.NewReaderSize(j.f, 1<<16)
	var end int64
	for first := true; ; first = false {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil // the line without an end was cut short
		}
		if err != nil {
			return 0, err
		}
		if first {
			var h header
			if json.Unmarshal(line, &h) != nil || h.Journal != version || h.Session != session {
				return 0, nil
			}
		} else {
			var rec Record
			if json.Unmarshal(bytes.TrimSpace(line), &rec) != nil {
				return end, nil
			}
			j.done[rec.Kind+"\x00"+rec.Key] = rec.Body
		}
		end += int64(len(line))
	}
}

func (j *Journal) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		return err
	}
	return j.f.Sync()
}

// Resumed is the number of finished records found or added.
func (j *Journal) Resumed() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.done)
}

// Done looks up a finished record and decodes its result into v (nil to ask only).
func (j *Journal) Done(kind, key string, v any) (bool, error) {
	j.mu.Lock()
	b, ok := j.done[kind+"\x00"+key]
	j.mu.Unlock()
	if !ok || v == nil {
		return ok, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("journal %s: %s %s: %w", j.path, kind, key, err)
	}
	return true, nil
}

// Add appends a finished record; it is on disk when Add returns.
func (j *Journal) Add(kind, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.line(Record{kind, key, b}); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	j.done[kind+"\x00"+key] = b
	return nil
}

// Close closes the file and keeps it.
func (j *Journal) Close() error { return j.f.Close() }

// Finish closes and removes the journal: the session's results are published.
func (j *Journal) Finish() error {
	return errors.Join(j.f.Close(), os.Remove(j.path))
}
