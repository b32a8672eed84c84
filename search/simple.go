package search

import "github.com/tilewright/tilewright/kernel"

// exhaustive measures every member in lexical order.
type exhaustive struct {
	*memory
	members []point
	next    int
}

// NewExhaustive measures every member of the space, each for the given number of blocks.
func NewExhaustive(s kernel.Space, blocks int) (Strategy, error) {
	m, err := newMemory(s, 0, blocks)
	if err != nil {
		return nil, err
	}
	e := &exhaustive{memory: m}
	m.each(func(p point) bool { e.members = append(e.members, append(point(nil), p...)); return true })
	return e, nil
}

func (e *exhaustive) Name() string { return "exhaustive" }
func (e *exhaustive) Done() bool   { return e.next == len(e.members) }

func (e *exhaustive) Ask(n int) []Candidate {
	var out []Candidate
	for ; len(out) < n && !e.Done(); e.next++ {
		out = e.propose(e.members[e.next], out)
	}
	return out
}

// randomSearch measures members drawn without replacement.
type randomSearch struct {
	*memory
	left int
}

// NewRandom measures up to limit members drawn uniformly without replacement.
func NewRandom(s kernel.Space, seed uint64, limit, blocks int) (Strategy, error) {
	m, err := newMemory(s, seed, blocks)
	if err != nil {
		return nil, err
	}
	return &randomSearch{m, limit}, nil
}

func (r *randomSearch) Name() string { return "random" }
func (r *randomSearch) Done() bool   { return r.left <= 0 }

func (r *randomSearch) Ask(n int) []Candidate {
	n = min(n, r.left)
	out := r.fresh(n, nil, r.random)
	if r.left -= len(out); len(out) < n {
		r.left = 0
	}
	return out
}
