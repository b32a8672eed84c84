package preflight

import (
	"fmt"
	"time"
)

// Watch judges blocks of measurements: Begin before, End after. Blocks may lie within each other.
type Watch struct {
	s    Source
	cpus []int
	lim  Limits
	clk  clocks
}

// Mark is the start of a block.
type Mark struct{ begin sample }

// NewWatch watches the target cores.
func NewWatch(s Source, cpus []int, lim Limits) *Watch {
	return &Watch{s: s, cpus: cpus, lim: lim, clk: clocks{last: map[int][]float64{}}}
}

// Block says whether something else moved a block's timings. It knows nothing of the arms: blocks
// are dropped blind to what ran in them.
type Block struct {
	Disturbed bool          `json:"disturbed"`
	Reasons   []string      `json:"reasons,omitempty"`
	Foreign   float64       `json:"foreign"` // share of the target cores used by others
	Steal     float64       `json:"steal"`
	Duration  time.Duration `json:"ns"`
	Processes []Process     `json:"processes,omitempty"`
}

// Begin marks the start of a block.
func (w *Watch) Begin() Mark { return Mark{w.s.take(w.cpus)} }

// End judges the block since Begin.
func (w *Watch) End(m Mark) Block {
	a, b := m.begin, w.s.take(w.cpus)
	blk := Block{Duration: b.mono - a.mono}
	capacity := time.Duration(len(w.cpus)) * blk.Duration
	// Time is counted in ticks, of the cores and of the own processes alike: below a few of them a
	// difference means nothing, however short the block. Steal is one count a core.
	slack, stolenSlack := time.Duration(2*len(w.cpus)+2)*tick, time.Duration(len(w.cpus))*tick

	foreign, own := between(a, b, w.s.Self)
	var busy, stolen time.Duration
	for _, id := range w.cpus {
		busy += b.cpus[id].busy - a.cpus[id].busy
		stolen += b.cpus[id].steal - a.cpus[id].steal
	}
	others := max(0, busy-own)
	blk.Foreign, blk.Steal = ratio(others, capacity), ratio(stolen, capacity)
	if blk.Foreign > w.lim.Aggregate && others > slack {
		blk.Reasons = append(blk.Reasons, fmt.Sprintf("other processes used %.1f%% of the target cores", 100*blk.Foreign))
	}
	if blk.Steal > w.lim.Steal && stolen > stolenSlack {
		blk.Reasons = append(blk.Reasons, fmt.Sprintf("the hypervisor took %.1f%%", 100*blk.Steal))
	}
	blk.Reasons = append(blk.Reasons, conditions(a, b, w.lim)...)
	blk.Reasons = append(blk.Reasons, w.clk.moved(w.s, w.cpus, w.lim.Clock)...)
	blk.Disturbed = len(blk.Reasons) > 0
	blk.Processes = busiest(foreign)
	return blk
}
