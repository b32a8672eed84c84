package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/kernel"
)

// Role names one weight matrix of a layer, or the head.
type Role string

const (
	RoleQ    Role = "q"
	RoleK    Role = "k"
	RoleV    Role = "v"
	RoleG    Role = "g" // head gate
	RoleO    Role = "o"
	RoleGate Role = "gate"
	RoleUp   Role = "up"
	RoleDown Role = "down"
	RoleHead Role = "head"
)

// Vec names a vector of a layer, or the final norm.
type Vec string

const (
	VecAttnNorm     Vec = "attn_norm"
	VecQBias        Vec = "q_bias"
	VecKBias        Vec = "k_bias"
	VecVBias        Vec = "v_bias"
	VecQNorm        Vec = "q_norm"
	VecKNorm        Vec = "k_norm"
	VecOutBias      Vec = "out_bias"
	VecPostAttnNorm Vec = "post_attn_norm"
	VecFFNNorm      Vec = "ffn_norm"
	VecPostFFNNorm  Vec = "post_ffn_norm"
	VecFinalNorm    Vec = "final_norm"
)

// Region is a list of products over the same activations.
type Region string

const (
	RegionQKV    Region = "qkv"
	RegionO      Region = "o"
	RegionGateUp Region = "gate_up"
	RegionDown   Region = "down"
	RegionHead   Region = "head" // once, after the layers
)

// LayerRegions are the regions of a layer, in order.
var LayerRegions = []Region{RegionQKV, RegionO, RegionGateUp, RegionDown}

// Part is a matrix within a region: Rows output channels.
type Part struct {
	Role Role
	Rows int
}

// Parts lists the matrices of a region and their common reduction length K.
func (s *Spec) Parts(r Region) (parts []Part, k int) {
	switch r {
	case RegionQKV:
		parts = []Part{{RoleQ, s.QRows()}, {RoleK, s.KVRows()}, {RoleV, s.KVRows()}}
		if s.HeadGate != HeadGateNone {
			parts = append(parts, Part{RoleG, s.Heads})
		}
		return parts, s.Hidden
	case RegionO:
		return []Part{{RoleO, s.Hidden}}, s.QRows()
	case RegionGateUp:
		return []Part{{RoleGate, s.FFN}, {RoleUp, s.FFN}}, s.Hidden
	case RegionDown:
		return []Part{{RoleDown, s.Hidden}}, s.FFN
	}
	return []Part{{RoleHead, s.Vocab}}, s.Hidden
}

// Segment is a run of parts of a region that share a format and are packed as one matrix.
type Segment struct {
	Role   string // the roles of its parts: "qkv", "gate_up", "down" ...
	Parts  []Part
	Format kernel.Format
	N, K   int
}

// Segments stacks neighbouring parts of the same format.
func Segments(parts []Part, k int, formats []kernel.Format) []Segment {
	var out []Segment
	for i, p := range parts {
		if n := len(out); n > 0 && out[n-1].Format == formats[i] {
			out[n-1].Parts = append(out[n-1].Parts, p)
			out[n-1].N += p.Rows
			continue
		}
		out = append(out, Segment{Parts: []Part{p}, Format: formats[i], N: p.Rows, K: k})
	}
	for i := range out {
		out[i].Role = roleName(out[i].Parts)
	}
	return out
}

func roleName(parts []Part) string {
	names := make([]string, len(parts))
	sep := ""
	for i, p := range parts {
		names[i] = string(p.Role)
		if len(p.Role) > 1 {
			sep = "_"
		}
	}
	return strings.Join(names, sep)
}

// Class is a set of packed matrices that the same kernels serve: equal role, shape and format.
type Class struct {
	Role   string        `json:"role" key:"hard"`
	N      int           `json:"n" key:"hard"`
	K      int           `json:"k" key:"hard"`
	Format kernel.Format `json:"format" key:"hard"`
	Count  int           `json:"count" key:"hard"`
	Layers []int         `json:"layers" key:"hard"` // nil for the head
}

func (c Class) String() string { return fmt.Sprintf("%s/%dx%d/%s", c.Role, c.N, c.K, c.Format) }

// Same reports whether two classes are served by the same kernels.
func (c Class) Same(d Class) bool {
	return c.Role == d.Role && c.N == d.N && c.K == d.K && c.Format == d.Format
}

// Problem is the linear problem of a class at a tuning point of M. Engine and tuner both ask for
// kernels by what it returns.
func (c Class) Problem(w Weights, m int, l kernel.Layout) kernel.Problem {
	return kernel.Problem{
		Op: kernel.OpLinear, Arith: c.Format.Arith(w.Arith()), M: m, N: c.N, K: c.K,
		Format: c.Format, Layout: l, Act: kernel.Act{Group: c.Format.Group},
	}
}

// Region is where the matrices of a class run.
func (c Class) Region() Region {
	switch c.Role {
	case "head":
		return RegionHead
	case "down":
		return RegionDown
	case "o":
		return RegionO
	case "gate", "up", "gate_up":
		return RegionGateUp
	}
	return RegionQKV
}

// Meets reports whether two classes run in the same region of a layer, or both in the head.
func (c Class) Meets(d Class) bool {
	if c.Region() != d.Region() {
		return false
	}
	return c.Region() == RegionHead || slices.ContainsFunc(c.Layers, func(l int) bool { return slices.Contains(d.Layers, l) })
}

// Key is the hashable identity of a class, its layers left out.
type Key struct {
	Role   string
	N, K   int
	Format kernel.Format
}

// Key returns the identity of c.
func (c Class) Key() Key { return Key{c.Role, c.N, c.K, c.Format} }

func addClass(classes []Class, s Segment, layer int) []Class {
	c := Class{Role: s.Role, N: s.N, K: s.K, Format: s.Format}
	i := slices.IndexFunc(classes, c.Same)
	if i < 0 {
		classes, i = append(classes, c), len(classes)
	}
	classes[i].Count++
	if layer >= 0 {
		classes[i].Layers = append(classes[i].Layers, layer)
	}
	return classes
}
