package search

import (
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// descent is coordinate descent with restarts: all values of one parameter are measured at once, the
// best so far becomes the centre, and a round over all parameters without a move ends the descent.
type descent struct {
	*memory
	center   point
	score    float64
	known    bool // the centre was measured
	params   []int
	moved    bool
	restarts int
	done     bool
}

// NewDescent starts coordinate descent at the default, then restarts from random members up to the
// given number of times.
func NewDescent(s kernel.Space, seed uint64, restarts, blocks int) (Strategy, error) {
	m, err := newMemory(s, seed, blocks)
	if err != nil {
		return nil, err
	}
	return &descent{memory: m, center: m.locate(s.Default()), restarts: restarts, moved: true}, nil
}

func (d *descent) Name() string { return "descent" }
func (d *descent) Done() bool   { return d.done }

func (d *descent) Ask(n int) []Candidate {
	for !d.done {
		if !d.known {
			d.known = true
			if out := d.propose(d.center, nil); len(out) > 0 {
				return out
			}
		}
		if len(d.params) == 0 && !d.round() {
			continue
		}
		i := d.params[0]
		var out []Candidate
		for v := range d.space.Params[i].Values {
			p := slices.Clone(d.center)
			p[i] = v
			if !d.allows(p) {
				p = d.repair(p, i)
			}
			if p != nil && len(out) < n {
				out = d.propose(p, out)
			}
		}
		if len(out) < n { // else the parameter has values left: stay on it
			d.params = d.params[1:]
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// round begins a new round over the parameters, or restarts, or ends; it reports whether there is a
// round to run.
func (d *descent) round() bool {
	if d.moved {
		d.moved = false
		d.params = d.rng.Perm(len(d.space.Params))
		return len(d.params) > 0 || d.restart()
	}
	return d.restart()
}

func (d *descent) restart() bool {
	if d.restarts--; d.restarts < 0 {
		d.done = true
		return false
	}
	fresh := d.fresh(1, nil, d.random)
	if d.done = len(fresh) == 0; d.done {
		return false
	}
	d.center, d.known, d.moved, d.score = d.locate(fresh[0].Config), false, true, math.Inf(-1)
	delete(d.asked, d.key(d.center)) // Ask proposes it as the centre
	d.params = nil
	return false
}

// Tell moves the centre to the best of a batch that beats it.
func (d *descent) Tell(rs []Result) {
	d.memory.Tell(rs)
	if r := d.told(d.config(d.center)); r != nil && r.usable() {
		d.score = r.Score
	}
	for _, r := range rs {
		if m := d.told(r.Config); m != nil && m.usable() && m.Score > d.score {
			d.center, d.score, d.moved = d.locate(m.Config), m.Score, true
		}
	}
}
