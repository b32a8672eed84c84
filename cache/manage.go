package cache

import (
	"fmt"
	"sort"
	"time"

	"github.com/tilewright/tilewright/kernel"
)

// Info describes an entry for listings.
type Info struct {
	Kind    Kind      `json:"kind"`
	Digest  string    `json:"digest"`
	Layer   string    `json:"layer"`
	Bytes   int       `json:"bytes"`
	Created time.Time `json:"created"`
	Title   string    `json:"title"`
	Problem string    `json:"problem,omitempty"` // why it cannot be used, "" if it can
}

// List describes all entries of both layers and of memory, kinds in order, newest first.
func (s *Store) List() ([]Info, error) {
	var out []Info
	err := s.each(func(e Entry, err error) { out = append(out, describe(e, err)) })
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].Kind != out[j].Kind {
			return kindRank(out[i].Kind) < kindRank(out[j].Kind)
		}
		return out[i].Created.After(out[j].Created)
	})
	return out, err
}

func (s *Store) inMemory() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Entry
	for _, k := range Kinds {
		for n, b := range s.memory[k] {
			out = append(out, Entry{k, n, "memory", b})
		}
	}
	return out
}

func kindRank(k Kind) int {
	for i, x := range Kinds {
		if x == k {
			return i
		}
	}
	return len(Kinds)
}

// each calls f with every entry; err says why its bytes could not be read.
func (s *Store) each(f func(Entry, error)) error {
	for _, e := range s.inMemory() {
		f(e, nil)
	}
	for _, c := range []struct {
		l    *layer
		name string
	}{{s.user, "user"}, {s.system, "system"}} {
		if c.l == nil {
			continue
		}
		for _, k := range Kinds {
			entries, _, err := c.l.names(k)
			if err != nil {
				return fmt.Errorf("cache: list %s: %w", k, err)
			}
			for _, n := range entries {
				b, err := c.l.read(k, n)
				f(Entry{k, n, c.name, b}, err)
			}
		}
	}
	return nil
}

// describe decodes an entry far enough to name it, and checks that it is where its key says.
func describe(e Entry, err error) Info {
	in := Info{Kind: e.Kind, Digest: e.Name[:max(0, len(e.Name)-len(".json"))], Layer: e.Layer, Bytes: len(e.bytes)}
	key := ""
	if err == nil {
		switch e.Kind {
		case KindDecision:
			var d Decision
			if err = unseal(e.bytes, &d); err == nil {
				key, in.Created, in.Title = kernel.KeyDigest(d.Key), d.Created, d.title()
			}
		case KindRule:
			var r Rule
			if err = unseal(e.bytes, &r); err == nil {
				key, in.Created, in.Title = kernel.KeyDigest(r.Key), r.Created, r.title()
			}
		case KindArtifact:
			var a ArtifactRecord
			if err = unseal(e.bytes, &a); err == nil {
				key, in.Created, in.Title = kernel.KeyDigest(a.Request), a.Created, a.title()
				if a.Artifact.Digest() != a.Digest {
					err = fmt.Errorf("%w: code does not have the digest it was stored with", ErrCorrupt)
				}
			}
		}
	}
	if err == nil && key != in.Digest {
		err = fmt.Errorf("%w: its key is %.12s, its name says %.12s", ErrCorrupt, key, in.Digest)
	}
	if err != nil {
		in.Problem = err.Error()
	}
	return in
}

func (d Decision) title() string {
	return fmt.Sprintf("%s %s %s, %d CPUs, ctx %d", d.Key.Model.Name, d.Key.Weights, d.Key.Phase, d.Key.CPUs, d.Key.Context)
}

func (r Rule) title() string {
	return fmt.Sprintf("%s %s %s, %d CPUs", r.Key.Weights, r.Key.Format, r.Layout, r.Key.CPUs)
}

func (a ArtifactRecord) title() string {
	return fmt.Sprintf("%s %s (%s, %s)", a.Artifact.Key.Problem, a.Artifact.Key.Config, a.Artifact.Key.Backend.Name, a.Origin)
}

// Show returns the decoded record whose digest starts with prefix (at least 4 characters).
func (s *Store) Show(prefix string) (Info, any, error) {
	if len(prefix) < 4 {
		return Info{}, nil, fmt.Errorf("cache: %q is too short: give at least 4 characters of a digest from `tune cache ls`", prefix)
	}
	type hit struct {
		in  Info
		rec any
	}
	var hits []hit
	err := s.each(func(e Entry, rerr error) {
		in := describe(e, rerr)
		if len(in.Digest) < len(prefix) || in.Digest[:len(prefix)] != prefix {
			return
		}
		var rec any
		switch e.Kind {
		case KindDecision:
			rec = &Decision{}
		case KindRule:
			rec = &Rule{}
		default:
			rec = &ArtifactRecord{}
		}
		if rerr == nil && unseal(e.bytes, rec) != nil {
			rec = nil
		}
		hits = append(hits, hit{in, rec})
	})
	switch {
	case err != nil:
		return Info{}, nil, err
	case len(hits) == 0:
		return Info{}, nil, fmt.Errorf("cache: no entry starts with %q: see `tune cache ls`", prefix)
	}
	for _, h := range hits[1:] {
		if h.in.Digest != hits[0].in.Digest {
			return Info{}, nil, fmt.Errorf("cache: %q is ambiguous: it starts both %.16s and %.16s", prefix, hits[0].in.Digest, h.in.Digest)
		}
	}
	return hits[0].in, hits[0].rec, nil
}

// Explanation compares one stored decision with the key asked for.
type Explanation struct {
	Info   Info
	Lookup Lookup
}

// Explain compares every stored decision with key: why each hits, misses or wants revalidation.
// Those with the fewest hard differences come first.
func (s *Store) Explain(key DecisionKey) ([]Explanation, error) {
	var out []Explanation
	err := s.each(func(e Entry, err error) {
		if e.Kind != KindDecision {
			return
		}
		x := Explanation{Info: describe(e, err)}
		var d Decision
		if x.Info.Problem != "" || unseal(e.bytes, &d) != nil {
			x.Lookup = Lookup{Status: Miss, Why: x.Info.Problem}
		} else {
			x.Lookup = d.judge(key, e.Layer)
		}
		out = append(out, x)
	})
	sort.SliceStable(out, func(i, j int) bool { return hardCount(out[i]) < hardCount(out[j]) })
	return out, err
}

// ExplainRules compares every stored host rule with the closest of keys.
func (s *Store) ExplainRules(keys []RuleKey) ([]Explanation, error) {
	var out []Explanation
	err := s.each(func(e Entry, err error) {
		if e.Kind != KindRule || len(keys) == 0 {
			return
		}
		x := Explanation{Info: describe(e, err)}
		var r Rule
		if x.Info.Problem != "" || unseal(e.bytes, &r) != nil {
			x.Lookup = Lookup{Status: Miss, Why: x.Info.Problem}
			out = append(out, x)
			return
		}
		for i, key := range keys {
			y := Explanation{x.Info, r.judge(key, e.Layer)}
			if i == 0 || hardCount(y) < hardCount(x) {
				x = y
			}
		}
		out = append(out, x)
	})
	sort.SliceStable(out, func(i, j int) bool { return hardCount(out[i]) < hardCount(out[j]) })
	return out, err
}

func hardCount(x Explanation) int {
	if x.Info.Problem != "" {
		return 1 << 30
	}
	n := 0
	for _, d := range x.Lookup.Diffs {
		if d.Class == kernel.Hard {
			n++
		}
	}
	return n
}

// Twins are artifacts of one problem (whatever its N) that are the same code, though their backends or
// configurations differ: a knob of theirs does nothing, or one was stored for the other.
type Twins struct {
	Code    string `json:"code"` // digest of what runs
	Entries []Info `json:"entries"`
}

// Twins lists the artifacts that are one.
func (s *Store) Twins() ([]Twins, error) {
	type group struct {
		arms map[string]bool
		Twins
	}
	groups := map[string]*group{}
	err := s.each(func(e Entry, err error) {
		in := describe(e, err)
		var rec ArtifactRecord
		if e.Kind != KindArtifact || in.Problem != "" || unseal(e.bytes, &rec) != nil {
			return
		}
		k := rec.Artifact.Key
		k.Problem.N = 0
		id := rec.Digest + " " + k.Problem.String()
		if groups[id] == nil {
			groups[id] = &group{arms: map[string]bool{}, Twins: Twins{Code: rec.Digest}}
		}
		groups[id].arms[k.Backend.Name+" "+k.Config.String()] = true
		groups[id].Entries = append(groups[id].Entries, in)
	})
	var out []Twins
	for _, g := range groups {
		if len(g.arms) > 1 {
			out = append(out, g.Twins)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Code < out[j].Code })
	return out, err
}
