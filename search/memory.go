package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// memory is what every strategy remembers: what it proposed, what came back, what failed.
type memory struct {
	*grid
	rng     *rand.Rand
	blocks  int                // blocks of a first measurement
	asked   map[string]bool    // proposed at least once, by point.key
	results map[string]*Result // told, merged
	order   []string           // keys of results, first told first
}

func newMemory(s kernel.Space, seed uint64, blocks int) (*memory, error) {
	g, err := newGrid(s)
	if err != nil {
		return nil, err
	}
	return &memory{grid: g, rng: rand.New(rand.NewPCG(seed, 0x5ea4)), blocks: max(blocks, 1),
		asked: map[string]bool{}, results: map[string]*Result{}}, nil
}

// Tell merges results: scores of the same configuration are averaged by blocks, a failure is final.
// What is not a member of the space is ignored.
func (m *memory) Tell(rs []Result) {
	for _, r := range rs {
		if m.space.Check(r.Config) != nil {
			continue
		}
		key := m.locate(r.Config).key()
		m.asked[key] = true
		old := m.results[key]
		switch {
		case old == nil:
			m.order = append(m.order, key)
			m.results[key] = &r
		case old.Failure != "":
		case r.Failure != "":
			old.Failure = r.Failure
		case r.Blocks > 0:
			n := old.Blocks + r.Blocks
			if old.Blocks == 0 {
				old.Score = 0
			}
			old.Score = (old.Score*float64(old.Blocks) + r.Score*float64(r.Blocks)) / float64(n)
			old.Blocks = n
		}
	}
}

// Best lists the k best results, ties in the order first told.
func (m *memory) Best(k int) []Result {
	return m.ranked(k, func(_ string, r *Result) float64 { return r.Score })
}

// ranked lists the k best usable results by score, ties in the order first told.
func (m *memory) ranked(k int, score func(key string, r *Result) float64) []Result {
	type entry struct {
		r     *Result
		score float64
		told  int
	}
	all := make([]entry, 0, len(m.order))
	for i, key := range m.order {
		if r := m.results[key]; r.usable() {
			all = append(all, entry{r, score(key, r), i})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.told, b.told))
	})
	out := make([]Result, min(k, len(all)))
	for i := range out {
		out[i] = *all[i].r
		out[i].Score = all[i].score
	}
	return out
}

func (r Result) usable() bool { return r.Failure == "" && r.Blocks > 0 && !math.IsNaN(r.Score) }

// propose appends p to out and marks it as asked, unless it was asked before.
func (m *memory) propose(p point, out []Candidate) []Candidate {
	if key := p.key(); !m.asked[key] {
		m.asked[key] = true
		out = append(out, Candidate{m.config(p), m.blocks})
	}
	return out
}

// told returns what is known of a configuration, nil if nothing is.
func (m *memory) told(c kernel.Config) *Result { return m.results[m.locate(c).key()] }

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
