package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/engine/model"
)

// square is the class with those of its layers alone that may be compared with each other: the most
// that agree in the kind of attention and in all that their region runs. The others keep the default.
func (t *tune) square(c model.Class) (model.Class, error) {
	kinds := map[string][]int{}
	var best []int
	for _, layer := range c.Layers {
		kind, err := t.kindOf(c.Region(), layer)
		if err != nil {
			return c, err
		}
		kinds[kind] = append(kinds[kind], layer)
		if len(kinds[kind]) > len(best) {
			best = kinds[kind]
		}
	}
	c.Layers = best
	return c, nil
}

func (t *tune) kindOf(r model.Region, layer int) (string, error) {
	l := t.Target.Model.Spec.Layers[layer]
	segs, err := t.Target.Model.Segments(r, layer, t.Target.Numerics)
	kind := fmt.Sprintf("%d %d", l.Window, l.Rope)
	for _, s := range segs {
		kind += fmt.Sprintf(" %s/%s", s.Role, s.Format)
	}
	return kind, err
}

// rounds deals classes so that no two of a round run in the same region of a layer: a region is
// timed as a whole, so what one of them carried would be credited to the other. The heaviest go
// first.
func rounds(classes []model.Class) [][]model.Class {
	classes = slices.Clone(classes)
	slices.SortStableFunc(classes, func(a, b model.Class) int {
		return cmp.Compare(weight([]model.Class{b}), weight([]model.Class{a}))
	})
	var out [][]model.Class
	for _, c := range classes {
		i := slices.IndexFunc(out, func(r []model.Class) bool { return !slices.ContainsFunc(r, c.Meets) })
		if i < 0 {
			i, out = len(out), append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// weight is the number of weights of classes.
func weight(cs []model.Class) float64 {
	n := 0.0
	for _, c := range cs {
		n += float64(c.N) * float64(c.K) * float64(max(1, len(c.Layers)))
	}
	return n
}

// shares names the classes that run in the same regions as c, "" if it is alone.
func (t *tune) shares(c model.Class) string {
	var with []string
	for _, d := range t.classes {
		if !c.Same(d) && c.Meets(d) {
			with = append(with, d.Role)
		}
	}
	if with == nil {
		return ""
	}
	return "which also runs " + strings.Join(with, ", ")
}
