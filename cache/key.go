// Package cache keeps what tuning found: decisions (which arm won for a model on a host, with its
// evidence), host rules (configurations that hold for any shape of a format) and artifacts (emitted
// code). Every entry carries the full key it was made for, compared on load; keys are made by
// reflection over structs whose fields are tagged hard, soft or excluded, so that a new field cannot
// be forgotten.
package cache

import (
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// Schema is the version of the records on disk. Older schemas stay readable (testdata/schemaN).
const Schema = 1

// Protocol is the version of the measurement protocol: results of another one are hints.
const Protocol = 3

// HostKey is what of a host decides whether a result holds there.
type HostKey struct {
	Arch        string          `json:"arch" key:"hard"`
	CPU         string          `json:"cpu" key:"hard"` // vendor, family, model: not the marketing name
	Features    kernel.Features `json:"features" key:"hard"`
	Microcode   string          `json:"microcode" key:"soft"`
	Mitigations string          `json:"mitigations" key:"soft"`
	Kernel      string          `json:"kernel" key:"soft"`
	THP         string          `json:"thp" key:"soft"`
	Governor    string          `json:"governor" key:"soft"`
	NUMA        string          `json:"numa" key:"soft"`
	CoreClass   string          `json:"core_class" key:"soft"`
	Quota       string          `json:"quota" key:"soft"`
	// Other is every further soft fact of the host's profile, by path, taken by reflection.
	Other    map[string]string `json:"other,omitempty" key:"soft"`
	Hostname string            `json:"hostname,omitempty" key:"-"`
}

// ClassKey is one kind of weight tensor of a model.
type ClassKey struct {
	Role   string        `json:"role" key:"hard"`
	N      int           `json:"n" key:"hard"`
	K      int           `json:"k" key:"hard"`
	Format kernel.Format `json:"format" key:"hard"`
	Count  int           `json:"count" key:"hard"`
	Layers []int         `json:"layers,omitempty" key:"hard"` // that hold it
}

// ModelKey is the shape of a model; its weights' values and its path do not matter to speed.
type ModelKey struct {
	Classes []ClassKey `json:"classes" key:"hard"`
	Heads   int        `json:"heads" key:"hard"`
	KVHeads int        `json:"kv_heads" key:"hard"`
	HeadDim int        `json:"head_dim" key:"hard"`
	Layers  int        `json:"layers" key:"hard"`
	Windows []int      `json:"windows" key:"hard"` // sliding window of each layer, 0 for none
	Gate    string     `json:"gate" key:"hard"`
	// Spec is every further field of the model's description that decides what runs, taken by reflection.
	Spec map[string]string `json:"spec,omitempty" key:"hard"`
	Name string            `json:"name,omitempty" key:"-"`
	Path string            `json:"path,omitempty" key:"-"`
}

// Sources are the identities of the code that decided and ran.
type Sources struct {
	Engine   string            `json:"engine" key:"soft"`
	Backends map[string]string `json:"backends" key:"soft"` // name -> digest
}

// DecisionKey is what a decision was made for. The engine computes the same key at startup.
type DecisionKey struct {
	Schema    int               `json:"schema" key:"hard"`
	Model     ModelKey          `json:"model" key:"hard"`
	Weights   string            `json:"weights" key:"hard"` // w4a8, w4a16
	Phase     string            `json:"phase" key:"hard"`   // decode, prefill, or both joined by +
	Context   int               `json:"context" key:"hard"` // upper end of the context bucket
	CPUs      int               `json:"cpus" key:"hard"`    // CPUs allowed
	Objective string            `json:"objective" key:"hard"`
	Pinned    map[string]string `json:"pinned" key:"hard"` // knobs and environment that the user fixed
	Host      HostKey           `json:"host" key:"hard"`
	Spaces    map[string]string `json:"spaces" key:"hard"` // backend/op -> version of its space
	Sources   Sources           `json:"sources" key:"hard"`
	Protocol  int               `json:"protocol" key:"soft"`
}

// RuleKey is what a host rule was made for: no N, no K, no model.
type RuleKey struct {
	Schema   int               `json:"schema" key:"hard"`
	Weights  string            `json:"weights" key:"hard"`
	Arith    kernel.Arith      `json:"arith" key:"hard"`
	Format   kernel.Format     `json:"format" key:"hard"`
	CPUs     int               `json:"cpus" key:"hard"`
	Pinned   map[string]string `json:"pinned" key:"hard"`
	Host     HostKey           `json:"host" key:"hard"`
	Spaces   map[string]string `json:"spaces" key:"hard"`
	Sources  Sources           `json:"sources" key:"hard"`
	Protocol int               `json:"protocol" key:"soft"`
}

// ContextBucket rounds a context length up to the bucket that a decision covers.
func ContextBucket(ctx int) int {
	for b := 1024; ; b *= 4 {
		if ctx <= b || b >= 1<<20 {
			return b
		}
	}
}

// Diff is one field in which a stored key differs from the one asked for.
type Diff struct {
	Path  string            `json:"path"`
	Class kernel.FieldClass `json:"class"`
	Have  string            `json:"have"` // stored
	Want  string            `json:"want"` // asked for
}

// Compare lists the fields in which two keys differ, hard ones first; excluded fields never appear.
func Compare(have, want any) []Diff {
	hf, wf := kernel.KeyFields(have), kernel.KeyFields(want)
	if slices.Equal(hf, wf) {
		return nil
	}
	var hard, soft []Diff
	add := func(path string, class kernel.FieldClass, a, b string) {
		switch class {
		case kernel.Hard:
			hard = append(hard, Diff{path, class, a, b})
		case kernel.Soft:
			soft = append(soft, Diff{path, class, a, b})
		}
	}
	h, w := fieldMap(hf), fieldMap(wf)
	for _, f := range wf {
		if g, ok := h[f.Path]; !ok {
			add(f.Path, f.Class, "absent", f.Value)
		} else if g.Value != f.Value {
			add(f.Path, f.Class, g.Value, f.Value)
		}
	}
	for _, f := range hf {
		if _, ok := w[f.Path]; !ok {
			add(f.Path, f.Class, f.Value, "absent")
		}
	}
	return append(hard, soft...)
}

func fieldMap(fields []kernel.KeyField) map[string]kernel.KeyField {
	m := make(map[string]kernel.KeyField, len(fields))
	for _, f := range fields {
		m[f.Path] = f
	}
	return m
}

// SameHard reports whether no hard field differs.
func SameHard(diffs []Diff) bool {
	return len(diffs) == 0 || diffs[0].Class != kernel.Hard
}
