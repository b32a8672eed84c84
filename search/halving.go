package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// halving runs brackets of successive halving (Jamieson and Talwalkar 2016): a population is
// measured briefly, the better third again for three times as long, until one or two are left.
// The next bracket draws half of its population near the best so far, as iterated racing does
// (López-Ibáñez et al. 2016), and half anew. Run races within each rung, so that arms that are
// clearly slower go before its end.
type halving struct {
	*memory
	population int
	brackets   int
	rung       []Result // told in the current rung
	waiting    int      // asked in it and not told yet
	queue      []Candidate
	depth      int
}

const eta = 3

// NewHalving runs the given number of brackets over populations of the given size.
func NewHalving(s kernel.Space, seed uint64, population, brackets, blocks int) (Strategy, error) {
	m, err := newMemory(s, seed, blocks)
	if err != nil {
		return nil, err
	}
	return &halving{memory: m, population: max(population, eta), brackets: brackets}, nil
}

func (h *halving) Name() string { return "halving" }
func (h *halving) Done() bool   { return len(h.queue) == 0 && h.waiting == 0 && h.brackets <= 0 }

// bracket queues a new population: the default if it is not known yet, neighbours of the best, and
// random members.
func (h *halving) bracket() {
	h.depth, h.rung = 0, nil
	if h.brackets--; h.brackets < 0 {
		h.brackets = 0
		return
	}
	h.queue = h.propose(h.locate(h.space.Default()), nil)
	if elites := h.Best(max(2, h.population/8)); len(elites) > 0 {
		h.queue = h.fresh(h.population/2, h.queue, func() point {
			return h.mutate(h.locate(elites[h.rng.IntN(len(elites))].Config))
		})
	}
	h.queue = h.fresh(h.population-len(h.queue), h.queue, h.random)
	if len(h.queue) == 0 { // the space is used up
		h.brackets = 0
	}
}

func (h *halving) Ask(n int) []Candidate {
	if len(h.queue) == 0 && h.waiting == 0 {
		h.bracket()
	}
	out := h.queue[:min(n, len(h.queue))]
	h.queue = h.queue[len(out):]
	h.waiting += len(out)
	return out
}

// Tell collects the rung; when it is whole, the better third goes on.
func (h *halving) Tell(rs []Result) {
	h.memory.Tell(rs)
	if h.waiting == 0 { // not asked for: knowledge from before, such as the control's
		return
	}
	h.rung = append(h.rung, rs...)
	if h.waiting = max(0, h.waiting-len(rs)); h.waiting > 0 || len(h.queue) > 0 {
		return
	}
	var next []Result
	for _, r := range h.rung {
		if m := h.told(r.Config); m != nil && m.usable() {
			next = append(next, *m)
		}
	}
	slices.SortStableFunc(next, func(a, b Result) int { return cmp.Compare(b.Score, a.Score) })
	next = next[:(len(next)+eta-1)/eta]
	h.rung = nil
	if h.depth++; len(next) < 2 {
		return
	}
	blocks := h.blocks * int(math.Pow(eta, float64(h.depth)))
	for _, r := range next {
		h.queue = append(h.queue, Candidate{r.Config, blocks})
	}
}
