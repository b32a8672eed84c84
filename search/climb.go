package search

import (
	"math"
	"slices"
)

// ascent is the scratch of climb.
type ascent struct {
	p, best point
	key     uint64    // of p
	slope   []float64 // of each parameter, by its place, as the others are
	turn    []int
}

func newAscent(n int) ascent {
	return ascent{p: make(point, n), best: make(point, n), slope: make([]float64, n), turn: make([]int, n)}
}

// climb returns the best unseen member that coordinate ascents over the values of a table come across.
func (b *bayes) climb(t *table) point {
	a := &b.ascents
	top := math.Inf(-1)
	for range bayesStarts {
		if !b.sampleInto(a.p) {
			return nil
		}
		at := b.enter(t, a)
		if at > top && !b.asked[a.key] {
			top = at
			copy(a.best, a.p)
		}
		for range bayesPasses {
			moved := false
			for i := range a.turn {
				k := b.rng.IntN(i + 1)
				a.turn[i], a.turn[k] = a.turn[k], i
			}
			for _, i := range a.turn {
				at, top, moved = b.ascend(t, a, i, at, top, moved)
			}
			if !moved {
				break
			}
		}
	}
	if math.IsInf(top, -1) {
		return nil
	}
	return slices.Clone(a.best)
}

// enter computes the slopes at a point and returns its value.
func (b *bayes) enter(t *table, a *ascent) float64 {
	at, n := 0.0, len(a.p)
	a.key = b.key(a.p)
	for i, v := range a.p {
		s := 0.0
		for k, u := range a.p {
			s += t.pair[i*n+k] * b.place[k][u]
		}
		a.slope[i] = s
		at += t.main[i][v] + s*b.place[i][v]/2
	}
	return at
}

// ascend moves parameter i to its best allowed value, and remembers unseen members on the way.
func (b *bayes) ascend(t *table, a *ascent, i int, at, top float64, moved bool) (float64, float64, bool) {
	was, keep, n := a.p[i], a.p[i], len(a.p)
	base, slope := at-t.main[i][was]-a.slope[i]*b.place[i][was], a.slope[i]
	for v, m := range t.main[i] {
		x := base + m + slope*b.place[i][v]
		if v == was || x <= at && x <= top {
			continue
		}
		if a.p[i] = v; !b.moves(a.p, i) {
			continue
		}
		if x > top && !b.asked[a.key+uint64(v-was)*b.mix[i]] {
			top = x
			copy(a.best, a.p)
		}
		if x > at {
			at, keep, moved = x, v, true
		}
	}
	a.p[i] = keep
	a.key += uint64(keep-was) * b.mix[i]
	if d := b.place[i][keep] - b.place[i][was]; d != 0 {
		for k := range n {
			a.slope[k] += t.pair[k*n+i] * d
		}
	}
	return at, top, moved
}
