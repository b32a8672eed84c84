package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tilewright/tilewright/kernel"
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

// Status says what a look-up found.
type Status string

const (
	Exact      Status = "exact"      // every field agrees
	Revalidate Status = "revalidate" // hard fields agree, soft ones differ: a hint
	Miss       Status = "miss"
)

// Lookup is the result of looking for a decision or rule.
type Lookup struct {
	Status Status
	Layer  string
	Diffs  []Diff
	Why    string
}

// Fits reports whether the decision that was found was made here for exactly this key: it may be run,
// also when its speed wants another look.
func (l Lookup) Fits(d Decision) bool {
	return l.Status == Exact || l.Status == Revalidate && len(l.Diffs) == 0 && !d.Imported
}

// Decision looks for the decision made for exactly this key.
func (s *Store) Decision(key DecisionKey) (Decision, Lookup) {
	var d Decision
	look := Lookup{Status: Miss, Why: "no entry for this key"}
	err := s.load(KindDecision, fileName(kernel.KeyDigest(key)), func(e Entry) error {
		var got Decision
		if err := unseal(e.bytes, &got); err != nil {
			return err
		}
		if look = got.judge(key, e.Layer); look.Status == Miss {
			return fmt.Errorf("%w: stored for another key: %s differs", ErrCorrupt, look.Diffs[0].Path)
		}
		d = got
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Decision{}, Lookup{Status: Miss, Why: err.Error()}
	}
	return d, look
}

// judge says what a decision is worth to who asks with key.
func (d *Decision) judge(key DecisionKey, layer string) Lookup {
	look := compare(d.Key, key, layer)
	switch {
	case look.Status == Miss:
	case d.Imported:
		look.Status, look.Why = Revalidate, "imported: a candidate until it is measured here"
	case d.Stale && look.Status == Exact:
		look.Status, look.Why = Revalidate, "marked by the engine: "+d.Notes[noteRevalidate]
	}
	return look
}

// Rule looks for the host rule made for exactly this key.
func (s *Store) Rule(key RuleKey) (Rule, Lookup) {
	var r Rule
	look := Lookup{Status: Miss, Why: "no entry for this key"}
	err := s.load(KindRule, fileName(kernel.KeyDigest(key)), func(e Entry) error {
		var got Rule
		if err := unseal(e.bytes, &got); err != nil {
			return err
		}
		look = compare(got.Key, key, e.Layer)
		switch {
		case look.Status == Miss:
			return fmt.Errorf("%w: stored for another key: %s differs", ErrCorrupt, look.Diffs[0].Path)
		case got.Imported:
			look.Status, look.Why = Revalidate, "imported: a candidate until it is measured here"
		}
		r = got
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Rule{}, Lookup{Status: Miss, Why: err.Error()}
	}
	return r, look
}

func compare(have, want any, layer string) Lookup {
	diffs := Compare(have, want)
	look := Lookup{Layer: layer, Diffs: diffs}
	switch {
	case len(diffs) == 0:
		look.Status = Exact
	case SameHard(diffs):
		look.Status, look.Why = Revalidate, diffs[0].Path+" changed"
	default:
		look.Status, look.Why = Miss, diffs[0].Path+" differs"
	}
	return look
}

// PutDecision publishes a decision. Its artifacts must have been put before it: the decision is the
// manifest that makes them one group.
func (s *Store) PutDecision(d Decision) error {
	d.Key.Schema = Schema
	if d.Created.IsZero() {
		d.Created = s.opts.Now().UTC()
	}
	return s.locked(KindDecision, func() error { return s.put(KindDecision, kernel.KeyDigest(d.Key), d) })
}

const noteRevalidate = "revalidate"

// Revalidate marks a decision that was looked up, unless another has taken its place since: the next
// tune measures it again. Until then look-ups say so, but it remains the one that fits: a reading of
// speed is no reason to run something else.
func (s *Store) Revalidate(d Decision, why string) error {
	return s.locked(KindDecision, func() error {
		now, look := s.Decision(d.Key)
		if look.Status == Miss || !now.Created.Equal(d.Created) {
			return nil
		}
		notes := map[string]string{}
		for k, v := range now.Notes {
			notes[k] = v
		}
		notes[noteRevalidate] = why
		now.Stale, now.Notes = true, notes
		return s.put(KindDecision, kernel.KeyDigest(now.Key), now)
	})
}

// PutRule publishes a host rule.
func (s *Store) PutRule(r Rule) error {
	r.Key.Schema = Schema
	if r.Created.IsZero() {
		r.Created = s.opts.Now().UTC()
	}
	return s.put(KindRule, kernel.KeyDigest(r.Key), r)
}

// PutArtifact stores an artifact under the request that it answers. origin is "tuned" or "default".
func (s *Store) PutArtifact(req Request, a *kernel.Artifact, origin string) error {
	return s.put(KindArtifact, kernel.KeyDigest(req), ArtifactRecord{
		Request: req, Artifact: *a, Origin: origin, Digest: a.Digest(), Created: s.opts.Now().UTC(),
	})
}

// Artifact returns the artifact that was stored for exactly this request. The stored request and the
// artifact's own key are compared field by field, the code against its digest, and ISA, ABI and
// entries against the host.
func (s *Store) Artifact(req Request) (*kernel.Artifact, error) {
	var out *kernel.Artifact
	err := s.load(KindArtifact, fileName(kernel.KeyDigest(req)), func(e Entry) error {
		var rec ArtifactRecord
		if err := unseal(e.bytes, &rec); err != nil {
			return err
		}
		if err := rec.check(req); err != nil {
			return err
		}
		out = &rec.Artifact
		return nil
	})
	return out, err
}

func (rec *ArtifactRecord) check(req Request) error {
	k := rec.Artifact.Key
	own := Request{Problem: k.Problem, Config: k.Config, LayoutVersion: k.LayoutVersion, Backend: k.Backend, Host: req.Host}
	for _, have := range []Request{rec.Request, own} {
		if d := Compare(have, req); len(d) > 0 {
			return fmt.Errorf("%w: made for another arm: %s is %s, asked for %s", kernel.ErrArtifact, d[0].Path, d[0].Have, d[0].Want)
		}
	}
	if got := rec.Artifact.Digest(); got != rec.Digest {
		return fmt.Errorf("%w: code does not have the digest it was stored with", ErrCorrupt)
	}
	return rec.Artifact.Validate(req.Host)
}
