package session

import (
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// checkpoint is a model whose value matrices are of another format in some layers.
type checkpoint struct {
	model.Checkpoint
	odd func(r model.Role, layer int) bool
}

type matrix struct {
	model.Matrix
	f kernel.Format
}

func (m matrix) Native() kernel.Format { return m.f }

func (c checkpoint) Matrix(r model.Role, layer int) (model.Matrix, error) {
	if c.odd(r, layer) {
		return matrix{f: kernel.FormatQ8_0}, nil
	}
	return matrix{f: kernel.FormatQ4_0}, nil
}

func (c checkpoint) Close() error { return nil }

func mixedTune(t *testing.T, preset string, odd func(model.Role, int) bool) *tune {
	s, err := model.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	u := &tune{}
	u.Target.Model = &model.Model{Spec: s, Checkpoint: checkpoint{odd: odd}}
	u.Target.Numerics = model.Numerics{Weights: model.W4A8}
	if u.classes, err = u.Target.Model.Classes(u.Target.Numerics); err != nil {
		t.Fatal(err)
	}
	return u
}

// Layers of another kind of attention, or whose region runs other formats too, are not compared with
// each other.
func TestSquare(t *testing.T) {
	u := mixedTune(t, "spark-1.7b", func(r model.Role, layer int) bool { return r == model.RoleDown && layer < 20 })
	for _, c := range u.classes {
		sq, err := u.square(c)
		if err != nil {
			t.Fatal(err)
		}
		if c.Role == "head" {
			if sq.Layers != nil {
				t.Errorf("head: %v", sq.Layers)
			}
			continue
		}
		windows := map[int]bool{}
		for _, l := range sq.Layers {
			windows[u.Target.Model.Spec.Layers[l].Window] = true
		}
		if len(windows) != 1 || len(sq.Layers) < 3*len(c.Layers)/4-1 || !sq.Same(c) {
			t.Errorf("%s: %d of %d layers, windows %v", c, len(sq.Layers), len(c.Layers), windows)
		}
	}
	// Half of the layers keep v in 8 bits: q and k are one class there, q, k and v elsewhere.
	u = mixedTune(t, "qwen3-0.6b", func(r model.Role, layer int) bool { return r == model.RoleV && layer%2 == 0 })
	for _, c := range u.classes {
		if sq, err := u.square(c); err != nil || !slices.Equal(sq.Layers, c.Layers) {
			t.Errorf("%s: %v, %v", c, sq.Layers, err)
		}
		want := ""
		switch c.Role {
		case "qk":
			want = "which also runs v"
		case "v":
			want = "which also runs qk"
		}
		if got := u.shares(c); got != want {
			t.Errorf("%s shares: %q", c, got)
		}
	}
	// A class that is alone in some layers and beside another format in one is timed where it is alone.
	u = mixedTune(t, "qwen3-0.6b", func(r model.Role, layer int) bool { return r == model.RoleUp && layer == 3 })
	for _, c := range u.classes {
		if sq, _ := u.square(c); c.Role == "gate_up" && slices.Contains(sq.Layers, 3) {
			t.Errorf("%s: %v", c, sq.Layers)
		}
	}
}

// Two classes of one region are never searched at the same time, and none is left out.
func TestRounds(t *testing.T) {
	u := mixedTune(t, "qwen3-0.6b", func(r model.Role, layer int) bool { return r == model.RoleV && layer%2 == 0 })
	rs := rounds(u.classes)
	n := 0
	for _, r := range rs {
		n += len(r)
		for i, c := range r {
			if slices.ContainsFunc(r[i+1:], c.Meets) {
				t.Errorf("%s shares its region in a round", c)
			}
		}
	}
	if len(rs) != 2 || n != len(u.classes) || len(rs[1]) != 1 || rs[1][0].Role != "v" {
		t.Errorf("%d rounds of %d classes: %v", len(rs), n, rs)
	}
}
