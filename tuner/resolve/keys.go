// Package resolve says under which keys results for a model on a host are kept, and turns what the
// cache holds into a plan that the engine runs: winners tuned for this model, else configurations
// tuned on this host with any model, else the defaults.
package resolve

import (
	"fmt"
	"reflect"
	"sort"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// Target is a model on a host, executed in a certain way: what a decision is made for.
type Target struct {
	Model    *model.Model
	Numerics model.Numerics
	Context  int
	CPUs     int // allowed
	Host     cache.HostKey
	// Pinned are the settings that the user fixed (flags and environment), by name.
	Pinned map[string]string
	// Backends are those that the target may use, by name.
	Backends map[string]BackendInfo
	Engine   string // source digest
}

// BackendInfo identifies a backend and the meaning of its parameters.
type BackendInfo struct {
	Digest  string // of its source or binary
	Version string // of its manifest: a new one means new spaces
}

// Objective is what tunes optimise for by default: both phases.
const Objective = "decode,prefill"

// DecisionKey is the key of a decision for the target.
func (t Target) DecisionKey() (cache.DecisionKey, error) {
	m, err := t.modelKey()
	return cache.DecisionKey{
		Schema: cache.Schema, Model: m, Weights: string(t.Numerics.Weights), Phase: "decode+prefill",
		Context: cache.ContextBucket(t.Context), CPUs: t.CPUs, Objective: Objective, Pinned: t.pinned(),
		Host: t.Host, Spaces: t.spaces(), Sources: t.sources(), Protocol: cache.Protocol,
	}, err
}

// RuleKey is the key of the host rule for a format.
func (t Target) RuleKey(f kernel.Format) cache.RuleKey {
	return cache.RuleKey{
		Schema: cache.Schema, Weights: string(t.Numerics.Weights), Arith: f.Arith(t.Numerics.Weights.Arith()),
		Format: f, CPUs: t.CPUs, Pinned: t.pinned(), Host: t.Host, Spaces: t.spaces(),
		Sources: t.sources(), Protocol: cache.Protocol,
	}
}

func (t Target) pinned() map[string]string {
	out := map[string]string{}
	for k, v := range t.Pinned {
		out[k] = v
	}
	return out
}

func (t Target) spaces() map[string]string {
	out := map[string]string{}
	for n, b := range t.Backends {
		out[n] = b.Version
	}
	return out
}

func (t Target) sources() cache.Sources {
	s := cache.Sources{Engine: t.Engine, Backends: map[string]string{}}
	for n, b := range t.Backends {
		s.Backends[n] = b.Digest
	}
	return s
}

func (t Target) modelKey() (cache.ModelKey, error) {
	s := t.Model.Spec
	classes, err := t.Model.Classes(t.Numerics)
	if err != nil {
		return cache.ModelKey{}, err
	}
	k := cache.ModelKey{Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Layers: len(s.Layers),
		Gate: string(s.Gate), Spec: specFacts(s), Name: s.Name}
	for _, c := range classes {
		k.Classes = append(k.Classes, cache.ClassKey{Role: c.Role, N: c.N, K: c.K, Format: c.Format, Count: c.Count, Layers: c.Layers})
	}
	sort.SliceStable(k.Classes, func(i, j int) bool { return k.Classes[i].Role < k.Classes[j].Role })
	for _, l := range s.Layers {
		k.Windows = append(k.Windows, l.Window)
	}
	return k, nil
}

// specApart are the fields of a Spec that specFacts leaves out, and why.
var specApart = map[string]string{
	"Arch":       "a family's name: its shape follows from the rest",
	"Name":       "a name",
	"Context":    "what is served is in the key",
	"Eps":        "a value, not a shape",
	"EmbedScale": "a value, not a shape",
	"QueryScale": "a value, not a shape",
	"Heads":      "ModelKey names it", "KVHeads": "ModelKey names it", "HeadDim": "ModelKey names it",
	"Gate":   "ModelKey names it",
	"Layers": "ModelKey has the windows; rotations are below",
	"Ropes":  "the angles are values; the number of rotated dimensions is below",
}

// specFacts are the fields of a model's description that decide what runs and that ModelKey does not
// name, by reflection: a new field of Spec cannot be forgotten.
func specFacts(s *model.Spec) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(*s)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if _, apart := specApart[name]; !apart {
			out[name] = fmt.Sprint(v.Field(i).Interface())
		}
	}
	var rot []int
	for _, l := range s.Layers {
		rot = append(rot, s.Ropes[l.Rope].Rot())
	}
	out["Rotated"] = fmt.Sprint(rot)
	return out
}
