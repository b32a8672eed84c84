package cache

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// A bundle carries decisions and rules between machines, signed with ed25519. It carries no code:
// artifacts are emitted again, and what is imported is a candidate that is measured before use.
type bundle struct {
	Schema    int        `json:"schema"`
	Decisions []Decision `json:"decisions"`
	Rules     []Rule     `json:"rules"`
}

type signedBundle struct {
	Bundle    string `json:"bundle"` // base64 of the JSON of a bundle
	PublicKey string `json:"public_key"`
	Signature string `json:"signature"`
}

// ErrSignature is wrapped when a bundle is not signed by the expected key.
var ErrSignature = errors.New("bundle signature")

// MaxBundle bounds the size of a bundle that Import reads.
const MaxBundle = 64 << 20

const bundleContext = "tilewright bundle v1\n"

// Export returns a bundle of all usable decisions and rules of the user layer and memory that were
// measured here, and their number: what was imported is not ours to sign.
func (s *Store) Export(key ed25519.PrivateKey) ([]byte, int, error) {
	b := bundle{Schema: Schema}
	err := s.each(func(e Entry, err error) {
		if e.Layer == "system" || describe(e, err).Problem != "" {
			return
		}
		switch e.Kind {
		case KindDecision:
			var d Decision
			if unseal(e.bytes, &d) == nil && !d.Imported {
				b.Decisions = append(b.Decisions, d)
			}
		case KindRule:
			var r Rule
			if unseal(e.bytes, &r) == nil && !r.Imported {
				b.Rules = append(b.Rules, r)
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(b)
	if err != nil {
		return nil, 0, fmt.Errorf("cache: export: %w", err)
	}
	out, err := json.MarshalIndent(signedBundle{
		Bundle:    base64.StdEncoding.EncodeToString(body),
		PublicKey: base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)),
		Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, append([]byte(bundleContext), body...))),
	}, "", " ")
	return append(out, '\n'), len(b.Decisions) + len(b.Rules), err
}

// Import adds the entries of a bundle signed by trusted, marked as candidates; what the user layer
// already holds is kept. It returns how many were added.
func (s *Store) Import(data []byte, trusted ed25519.PublicKey) (added, kept int, err error) {
	b, err := openBundle(data, trusted)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range b.Decisions {
		d.Key.Schema = Schema // as PutDecision files it: what is here is looked up under the same key
		if _, look := s.Decision(d.Key); look.Status != Miss {
			kept++
			continue
		}
		d.Imported, d.Artifacts = true, nil
		if err := s.PutDecision(d); err != nil {
			return added, kept, err
		}
		added++
	}
	for _, r := range b.Rules {
		r.Key.Schema = Schema
		if _, look := s.Rule(r.Key); look.Status != Miss {
			kept++
			continue
		}
		r.Imported = true
		if err := s.PutRule(r); err != nil {
			return added, kept, err
		}
		added++
	}
	return added, kept, nil
}

func openBundle(data []byte, trusted ed25519.PublicKey) (bundle, error) {
	var b bundle
	if len(data) > MaxBundle {
		return b, fmt.Errorf("%w: a bundle of %d bytes, the limit is %d", ErrCorrupt, len(data), MaxBundle)
	}
	var sb signedBundle
	if err := json.Unmarshal(data, &sb); err != nil {
		return b, fmt.Errorf("%w: not a bundle: %v", ErrCorrupt, err)
	}
	body, err1 := base64.StdEncoding.DecodeString(sb.Bundle)
	sig, err2 := base64.StdEncoding.DecodeString(sb.Signature)
	pub, err3 := base64.StdEncoding.DecodeString(sb.PublicKey)
	if err := errors.Join(err1, err2, err3); err != nil {
		return b, fmt.Errorf("%w: bundle: %v", ErrCorrupt, err)
	}
	switch {
	case len(trusted) != ed25519.PublicKeySize:
		return b, fmt.Errorf("%w: no trusted public key given", ErrSignature)
	case !trusted.Equal(ed25519.PublicKey(pub)):
		return b, fmt.Errorf("%w: signed by %q, not by the trusted key", ErrSignature, sb.PublicKey)
	case !ed25519.Verify(trusted, append([]byte(bundleContext), body...), sig):
		return b, fmt.Errorf("%w: does not match the content", ErrSignature)
	}
	return decodeBundle(body)
}

// decodeBundle decodes what was signed, of this schema or an older one.
func decodeBundle(body []byte) (bundle, error) {
	var raw struct {
		Schema    int               `json:"schema"`
		Decisions []json.RawMessage `json:"decisions"`
		Rules     []json.RawMessage `json:"rules"`
	}
	bad := func(err error) (bundle, error) { return bundle{}, fmt.Errorf("%w: bundle: %v", ErrCorrupt, err) }
	if err := json.Unmarshal(body, &raw); err != nil {
		return bad(err)
	}
	if raw.Schema < oldest() || raw.Schema > Schema {
		return bad(fmt.Errorf("schema %d, this build reads %d to %d", raw.Schema, oldest(), Schema))
	}
	b := bundle{Schema: Schema, Decisions: make([]Decision, len(raw.Decisions)), Rules: make([]Rule, len(raw.Rules))}
	for i, r := range raw.Decisions {
		if err := decodeRecord(r, raw.Schema, &b.Decisions[i]); err != nil {
			return bad(err)
		}
	}
	for i, r := range raw.Rules {
		if err := decodeRecord(r, raw.Schema, &b.Rules[i]); err != nil {
			return bad(err)
		}
	}
	return b, nil
}
