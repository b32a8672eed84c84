package cache

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options say where a store lives.
type Options struct {
	Dir       string // user layer, written; "" keeps everything in memory
	SystemDir string // read-only layer, "" for none
	ReadOnly  bool   // never write, not even folders
	Now       func() time.Time
}

// Store is a user layer over a system layer. When the user layer cannot be used (no home, read-only,
// foreign, writable by others, full), it warns once and keeps entries in memory. It is safe for
// concurrent use, and for use by many processes: every entry is one file, published by rename.
type Store struct {
	user, system *layer
	opts         Options
	noDir        bool // nothing can be written
	warn         sync.Once
	mu           sync.Mutex
	memory       map[Kind]map[string][]byte
	warning      string
}

// DefaultDir is $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright, else "" (memory).
func DefaultDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "tilewright")
}

// Open opens a store. It does not fail: what cannot be used is warned about and replaced by memory.
func Open(opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Store{opts: opts, memory: map[Kind]map[string][]byte{}}
	for _, k := range Kinds {
		s.memory[k] = map[string][]byte{}
	}
	s.openUser()
	if opts.SystemDir != "" {
		l, err := openLayer(opts.SystemDir, systemWide)
		if err == nil {
			s.system = l
		} else if !errors.Is(err, fs.ErrNotExist) {
			slog.Warn("system cache not used", "dir", opts.SystemDir, "why", err)
		}
	}
	return s
}

// openUser opens the user layer: for writing, else for reading what is there, else not at all.
func (s *Store) openUser() {
	if s.opts.Dir == "" {
		s.degrade(errors.New("no cache directory (no home?)"))
		s.noDir = true
		return
	}
	if !s.opts.ReadOnly {
		l, err := openLayer(s.opts.Dir, readWrite)
		if err == nil {
			s.user = l
			return
		}
		s.degrade(err)
		s.noDir, s.opts.ReadOnly = true, true
	}
	l, err := openLayer(s.opts.Dir, readOnly)
	switch {
	case err == nil:
		s.user = l
	case !errors.Is(err, fs.ErrNotExist):
		s.degrade(err)
		s.noDir = true
	}
}

// Close releases the folders.
func (s *Store) Close() {
	for _, l := range []*layer{s.user, s.system} {
		if l != nil {
			l.close()
		}
	}
	s.user, s.system = nil, nil
}

// Dir is where entries are kept, "" when that is memory.
func (s *Store) Dir() string {
	if s.noDir {
		return ""
	}
	return s.opts.Dir
}

// Warning is why the store fell back to memory, "" if it did not.
func (s *Store) Warning() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warning
}

func (s *Store) degrade(err error) {
	s.warn.Do(func() {
		s.mu.Lock()
		s.warning = err.Error()
		s.mu.Unlock()
		slog.Warn("cache not used: results are kept in memory for this run only", "dir", s.opts.Dir, "why", err)
	})
}

func fileName(digest string) string { return digest + ".json" }

// put publishes an entry under its digest, in memory if it cannot be written.
func (s *Store) put(k Kind, digest string, v any) error {
	b, err := seal(v)
	if err != nil {
		return err
	}
	name := fileName(digest)
	if s.user != nil && !s.opts.ReadOnly {
		err := s.user.write(k, name, b)
		if err == nil {
			s.mu.Lock()
			delete(s.memory[k], name) // older, of a time when it could not be written
			s.mu.Unlock()
			return nil
		}
		s.degrade(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory[k][name] = b
	return nil
}

// locked runs f while no other process updates entries of a kind.
func (s *Store) locked(k Kind, f func() error) error {
	if s.user != nil && !s.opts.ReadOnly {
		defer s.user.lock(k)()
	}
	return f()
}

// Entry is where the bytes of an entry came from.
type Entry struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name"`
	Layer string `json:"layer"` // memory, user, system
	bytes []byte
}

// load returns the first acceptable copy of an entry: memory, user layer, system layer. accept decodes
// and judges it; a copy that it refuses is a miss in that layer, which the next write heals.
func (s *Store) load(k Kind, name string, accept func(Entry) error) error {
	s.mu.Lock()
	b, ok := s.memory[k][name]
	s.mu.Unlock()
	if ok {
		return accept(Entry{k, name, "memory", b})
	}
	var firstErr error
	for _, c := range []struct {
		l    *layer
		name string
	}{{s.user, "user"}, {s.system, "system"}} {
		if c.l == nil {
			continue
		}
		b, err := c.l.read(k, name)
		if err == nil {
			err = accept(Entry{k, name, c.name, b})
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrNotExist):
		default:
			slog.Warn("cache entry not used", "kind", k, "entry", name, "layer", c.name, "why", err)
			firstErr = errors.Join(firstErr, err)
		}
	}
	if firstErr != nil {
		return firstErr
	}
	return fs.ErrNotExist
}
