package session

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// recorded journals every block of a search before its result is used. A resumed search asks again
// what it asked before, since strategies are deterministic: it is answered from the journal, up to
// the first block that is not there. What is measured from then on holds the control too, so it
// joins what was measured before as a ratio to the same arm.
type recorded struct {
	t     *tune
	src   search.Source
	name  string
	def   kernel.Choice
	n     int  // blocks asked for
	got   int  // blocks that were answered
	live  bool // past the end of the journal
	at    int  // number of blocks at which share was told, plus 1
	share float64
	told  map[string]bool // failures that were reported
}

// blockRecord is a block in the journal, where costs have no NaN.
type blockRecord struct {
	Arms      []string        `json:"arms"` // configurations, the control first
	Order     []int           `json:"order"`
	Costs     map[int]float64 `json:"costs"`             // by arm
	Samples   []int           `json:"samples,omitempty"` // behind each cost
	Failures  map[int]string  `json:"failures,omitempty"`
	Disturbed string          `json:"disturbed,omitempty"`
}

// Measure returns the journal's block, else measures one.
func (r *recorded) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	key := fmt.Sprintf("%s %d", r.name, r.n)
	r.n++
	var names []string
	for _, c := range arms {
		names = append(names, c.String())
	}
	var rec blockRecord
	if !r.live && r.t.done("block", key, &rec) && slices.Equal(rec.Arms, names) && slices.Equal(rec.Order, order) {
		r.got++
		return r.report(arms, rec.block()), nil
	}
	r.live = true
	b, err := r.src.Measure(arms, order)
	if err != nil {
		return b, err
	}
	r.got++
	rec = blockRecord{Arms: names, Order: order, Costs: map[int]float64{}, Samples: b.Samples, Failures: b.Failures, Disturbed: b.Disturbed}
	for i, c := range b.Costs {
		if c > 0 && !math.IsInf(c, 0) {
			rec.Costs[i] = c
		}
	}
	r.t.add("block", key, rec)
	return r.report(arms, b), nil
}

// left journals what a search was told is left of its time, and batch how many candidates a block
// has: what a search asks depends on both, and a resumed one must ask again what it asked before.
func (r *recorded) left(share float64) float64 {
	if r.at == r.n+1 {
		return r.share // however often it asks between two blocks
	}
	key := fmt.Sprintf("%s %d", r.name, r.n)
	if r.live || !r.t.done("left", key, &share) {
		r.t.add("left", key, share)
	}
	r.at, r.share = r.n+1, share
	return share
}

func (r *recorded) batch(n int) int {
	if !r.t.done("width", r.name, &n) {
		r.t.add("width", r.name, n)
	}
	return n
}

// block undoes the record.
func (r blockRecord) block() search.Block {
	b := search.Block{Costs: make([]float64, len(r.Arms)), Samples: r.Samples, Failures: r.Failures, Disturbed: r.Disturbed}
	for i := range b.Costs {
		b.Costs[i] = math.NaN()
		if c, ok := r.Costs[i]; ok {
			b.Costs[i] = c
		}
	}
	return b
}

// report tells the tune of each configuration that failed, once.
func (r *recorded) report(arms []kernel.Config, b search.Block) search.Block {
	for i, why := range b.Failures {
		if key := arms[i].String(); !r.told[key] {
			if r.told == nil {
				r.told = map[string]bool{}
			}
			r.told[key] = true
			r.t.fail(r.def, arms[i], why)
		}
	}
	return b
}
