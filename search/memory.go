package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// memory is what every strategy remembers: what it proposed, what came back, what failed.
type memory struct {
	*grid
	rng    *rand.Rand
	blocks int             // blocks of a first measurement
	asked  map[uint64]bool // proposed at least once, by key
	order  []*Result       // what was told, merged, first told first
	places map[uint64]int  // in order, by key
	found  point           // scratch of note
}

func newMemory(s kernel.Space, seed uint64, blocks int) (*memory, error) {
	g, err := newGrid(s)
	if err != nil {
		return nil, err
	}
	return &memory{grid: g, rng: rand.New(rand.NewPCG(seed, 0x5ea4)), blocks: max(blocks, 1),
		asked: map[uint64]bool{}, places: map[uint64]int{}, found: make(point, len(s.Params))}, nil
}

// Tell merges results: scores of the same configuration are averaged by weight, a failure is final.
// What is not a member of the space is ignored.
func (m *memory) Tell(rs []Result) {
	for _, r := range rs {
		m.note(r)
	}
}

// note remembers a result and returns its place in the order, -1 if it is not of a member. The point is
// in found.
func (m *memory) note(r Result) int {
	if !m.find(r.Config, m.found) {
		return -1
	}
	key := m.key(m.found)
	at, ok := m.places[key]
	if ok {
		m.order[at].merge(r)
		return at
	}
	m.asked[key] = true
	m.places[key] = len(m.order)
	m.order = append(m.order, &r)
	return len(m.order) - 1
}

// Best lists the k best results, ties in the order first told.
func (m *memory) Best(k int) []Result {
	top := make([]ranking, 0, min(k, len(m.order)))
	for i, r := range m.order {
		if r.usable() {
			top = place(top, k, ranking{r.Score, i})
		}
	}
	out := make([]Result, len(top))
	for i, e := range top {
		out[i] = *m.order[e.told]
	}
	return out
}

// ranking is the score of what was told at a place in the order.
type ranking struct {
	score float64
	told  int
}

// place puts e where it belongs among the k best, which are sorted, ties in the order first told.
func place(top []ranking, k int, e ranking) []ranking {
	if k < 1 || len(top) == k && !(e.score > top[k-1].score) {
		return top
	}
	if len(top) < k {
		top = append(top, e)
	}
	i := len(top) - 1
	for ; i > 0 && e.score > top[i-1].score; i-- {
		top[i] = top[i-1]
	}
	top[i] = e
	return top
}

func (r *Result) usable() bool { return r.Failure == "" && r.Blocks > 0 && !math.IsNaN(r.Score) }

// propose appends p to out and marks it as asked, unless it was asked before.
func (m *memory) propose(p point, out []Candidate) []Candidate {
	if key := m.key(p); !m.asked[key] {
		m.asked[key] = true
		out = append(out, Candidate{m.config(p), m.blocks})
	}
	return out
}

// told returns what is known of a configuration, nil if nothing is.
func (m *memory) told(c kernel.Config) *Result {
	if at, ok := m.places[m.key(m.locate(c))]; ok {
		return m.order[at]
	}
	return nil
}

// repeats is how many draws of known members in a row make fresh scan for the rest.
const repeats = 16

// fresh appends up to n unseen members: drawn by sample, and when draws keep repeating, from a scan
// of the rest, so that none left means none left.
func (m *memory) fresh(n int, out []Candidate, draw func() point) []Candidate {
	want := len(out) + n
	for misses := 0; len(out) < want && misses < repeats; {
		before := len(out)
		if p := draw(); p != nil {
			out = m.propose(p, out)
		}
		if misses++; len(out) > before {
			misses = 0
		}
	}
	if len(out) < want {
		m.each(func(p point) bool {
			out = m.propose(p, out)
			return len(out) < want
		})
	}
	return out
}

// sampleInto makes p a member drawn at random and reports whether there is one.
func (m *memory) sampleInto(p point) bool {
	if m.draw(m.rng, p) {
		return true
	}
	q := m.sample(m.rng)
	copy(p, q)
	return q != nil
}

func (m *memory) random() point { return m.sample(m.rng) }

// mutate returns a member near p: one or two parameters moved, repaired.
func (m *memory) mutate(p point) point {
	q := slices.Clone(p)
	if len(q) == 0 {
		return q
	}
	i := 0
	for range 1 + m.rng.IntN(2) {
		i = m.rng.IntN(len(q))
		q[i] = m.rng.IntN(len(m.space.Params[i].Values))
	}
	if m.allows(q) {
		return q
	}
	return m.repair(q, i)
}
