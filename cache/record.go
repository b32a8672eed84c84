package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tilewright/tilewright/kernel"
)

// Kind is a kind of entry, and the folder that holds it.
type Kind string

const (
	KindDecision Kind = "decisions"
	KindRule     Kind = "rules"
	KindArtifact Kind = "artifacts"
)

// Kinds lists all kinds of entries.
var Kinds = []Kind{KindDecision, KindRule, KindArtifact}

// Evidence is why a winner won.
type Evidence struct {
	Phase    string  `json:"phase"`
	Metric   string  `json:"metric"`
	Default  float64 `json:"default"`
	Winner   float64 `json:"winner"`
	Ratio    float64 `json:"ratio"` // winner over default, median of pairs
	Lo       float64 `json:"lo"`
	Hi       float64 `json:"hi"`
	Pairs    int     `json:"pairs"`
	AANoise  float64 `json:"aa_noise"`
	Depth    int     `json:"depth,omitempty"` // tokens of context at which decode was measured
	Kept     int     `json:"kept"`
	Dropped  int     `json:"dropped"`
	Decision string  `json:"decision"` // winner, no winner
	Why      string  `json:"why"`
}

// Decision is the record of a tuned model.
type Decision struct {
	Key        DecisionKey       `json:"key"`
	Arm        kernel.Arm        `json:"arm"`
	Won        []kernel.Problem  `json:"won,omitempty"` // those whose choice or layout in the arm is not the default's
	Evidence   []Evidence        `json:"evidence"`
	Artifacts  []string          `json:"artifacts"` // digests of artifact keys
	Quarantine []kernel.Choice   `json:"quarantine,omitempty"`
	Stale      bool              `json:"stale,omitempty"`    // marked: speed is not what it was, or a phase was not checked; see Mark
	Imported   bool              `json:"imported,omitempty"` // a candidate from elsewhere, never used unmeasured
	Created    time.Time         `json:"created"`
	Notes      map[string]string `json:"notes,omitempty"`
}

// RuleChoice is a configuration at one M point.
type RuleChoice struct {
	M       int           `json:"m"`
	Backend string        `json:"backend"`
	Config  kernel.Config `json:"config"`
}

// Rule holds the configurations of one format on one host, whatever N and K.
type Rule struct {
	Key      RuleKey       `json:"key"`
	Layout   kernel.Layout `json:"layout"`
	Choices  []RuleChoice  `json:"choices"`
	Knobs    kernel.Knobs  `json:"knobs"`
	Imported bool          `json:"imported,omitempty"`
	Created  time.Time     `json:"created"`
}

// Request is what an artifact is asked for by: who asks does not know which instructions the backend
// will use on this host, the answer's own key does.
type Request struct {
	Problem       kernel.Problem   `json:"problem" key:"hard"`
	Config        kernel.Config    `json:"config" key:"hard"`
	LayoutVersion int              `json:"layout_version" key:"hard"`
	Backend       kernel.BackendID `json:"backend" key:"hard"`
	Host          kernel.Features  `json:"host" key:"hard"`
}

// NewRequest asks for the artifact of a choice by a backend on a host.
func NewRequest(c kernel.Choice, b kernel.BackendID, host kernel.Features) Request {
	return Request{Problem: c.Problem, Config: c.Config, LayoutVersion: kernel.LayoutVersion, Backend: b, Host: host}
}

// ArtifactRecord is a stored artifact.
type ArtifactRecord struct {
	Request  Request         `json:"request"`
	Artifact kernel.Artifact `json:"artifact"`
	Origin   string          `json:"origin"` // tuned or default
	Digest   string          `json:"digest"` // of the artifact, checked on load
	Created  time.Time       `json:"created"`
}

// ErrCorrupt is wrapped by every refusal of an entry's bytes: torn, truncated, altered, unreadable.
var ErrCorrupt = errors.New("corrupt cache entry")

// An entry on disk is one line "tilewright SCHEMA SHA256 LENGTH\n" and a JSON body of LENGTH bytes.
const magic = "tilewright"

const maxEntry = 16 << 20

func seal(v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, fmt.Errorf("cache: encode: %w", err)
	}
	sum := sha256.Sum256(body)
	head := fmt.Sprintf("%s %d %s %d\n", magic, Schema, hex.EncodeToString(sum[:]), len(body))
	return append([]byte(head), body...), nil
}

// unseal checks the envelope and decodes the body into v.
func unseal(b []byte, v any) error {
	bad := func(why string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(why, a...))
	}
	if len(b) > maxEntry {
		return bad("%d bytes, the limit is %d", len(b), maxEntry)
	}
	head, body, ok := bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(head)
	if !ok || len(f) != 4 || string(f[0]) != magic {
		return bad("no %q header", magic)
	}
	schema, err := strconv.Atoi(string(f[1]))
	switch {
	case err != nil || schema < oldest():
		return bad("schema %q, this build reads %d to %d", f[1], oldest(), Schema)
	case schema > Schema:
		return bad("written by a newer version (schema %d, this build reads up to %d)", schema, Schema)
	}
	if n, err := strconv.Atoi(string(f[3])); err != nil || n != len(body) {
		return bad("header says %q bytes, found %d", f[3], len(body))
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(f[2]) {
		return bad("digest mismatch")
	}
	if err := decodeRecord(body, schema, v); err != nil {
		return bad("%v", err)
	}
	return nil
}

// decodeRecord decodes the JSON of a record, after migrating it to this schema.
func decodeRecord(body []byte, schema int, v any) (err error) {
	if schema < Schema {
		if body, err = upgrade(kindOf(v), schema, body); err != nil {
			return err
		}
	}
	return json.Unmarshal(body, v)
}

func kindOf(v any) Kind {
	switch v.(type) {
	case *Decision:
		return KindDecision
	case *Rule:
		return KindRule
	}
	return KindArtifact
}
