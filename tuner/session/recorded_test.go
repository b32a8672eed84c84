package session

import (
	"path/filepath"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/tuner/journal"
)

// countedSource answers every block with ones.
type countedSource int

func (n *countedSource) Measure(arms []kernel.Config, _ []int) (search.Block, error) {
	*n++
	b := search.Block{Costs: make([]float64, len(arms))}
	for i := range b.Costs {
		b.Costs[i] = 1
	}
	return b, nil
}

// A block is answered from the journal if it is the one that is asked for: the same arms in the same order.
func TestRecordedBlockIsTheOneAskedFor(t *testing.T) {
	a, b, c := kernel.Config{"x": 0}, kernel.Config{"x": 1}, kernel.Config{"x": 2}
	for name, ask := range map[string]struct {
		arms     []kernel.Config
		order    []int
		measured countedSource
	}{
		"the same":      {[]kernel.Config{a, b}, []int{0, 1}, 1},
		"another order": {[]kernel.Config{a, b}, []int{1, 0}, 2},
		"another arm":   {[]kernel.Config{a, c}, []int{0, 1}, 2},
	} {
		u := testTune(t)
		var err error
		if u.journal, err = journal.Open(filepath.Join(t.TempDir(), "j"), "s"); err != nil {
			t.Fatal(err)
		}
		var n countedSource
		for _, x := range []*recorded{{t: u, src: &n, name: "c"}, {t: u, src: &n, name: "c"}} {
			arms, order := []kernel.Config{a, b}, []int{0, 1}
			if n > 0 {
				arms, order = ask.arms, ask.order
			}
			if got, err := x.Measure(arms, order); err != nil || len(got.Costs) != 2 {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
		}
		if n != ask.measured {
			t.Errorf("%s: measured %d times, want %d", name, n, ask.measured)
		}
		u.closeJournal()
	}
}
