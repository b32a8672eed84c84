package cache

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tilewright/tilewright/kernel"
)

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
		look.Status, look.Why = Revalidate, "marked: "+d.Notes[noteRevalidate]
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
		if look = got.judge(key, e.Layer); look.Status == Miss {
			return fmt.Errorf("%w: stored for another key: %s differs", ErrCorrupt, look.Diffs[0].Path)
		}
		r = got
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Rule{}, Lookup{Status: Miss, Why: err.Error()}
	}
	return r, look
}

// judge says what a rule is worth to who asks with key.
func (r *Rule) judge(key RuleKey, layer string) Lookup {
	look := compare(r.Key, key, layer)
	if look.Status != Miss && r.Imported {
		look.Status, look.Why = Revalidate, "imported: a candidate until it is measured here"
	}
	return look
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

// Mark makes a decision one that the next tune measures again, and says why.
func (d *Decision) Mark(why string) {
	notes := map[string]string{noteRevalidate: why}
	for k, v := range d.Notes {
		if k != noteRevalidate {
			notes[k] = v
		}
	}
	d.Stale, d.Notes = true, notes
}

// Revalidate marks a decision that was looked up, unless another has taken its place since: the next
// tune measures it again. Until then look-ups say so, but it remains the one that fits: a reading of
// speed is no reason to run something else.
func (s *Store) Revalidate(d Decision, why string) error {
	return s.locked(KindDecision, func() error {
		now, look := s.Decision(d.Key)
		if look.Status == Miss || !now.Created.Equal(d.Created) {
			return nil
		}
		now.Mark(why)
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
