package preflight

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/search/stat"
)

// A core whose clock moves voids the blocks in which it did, not all that follow; what lasts a moment is
// not a clock.
func TestClockDrift(t *testing.T) {
	const usual = 10 * time.Microsecond
	steady := func(int, int) time.Duration { return usual }
	for name, c := range map[string]struct {
		read  func(block, reading int) time.Duration // of core 1; a reading of the block
		void  []int
		named string
	}{
		"steady":  {read: steady},
		"jitters": {read: func(b, _ int) time.Duration { return usual + time.Duration(b%3)*300*time.Nanosecond }},
		"sinks at 5 and stays": {read: func(b, _ int) time.Duration {
			if b >= 5 {
				return usual * 5 / 4
			}
			return usual
		}, void: []int{5, 6, 7, 8}, named: "core 1 runs at 80%"},
		"rises at 5 and stays": {read: func(b, _ int) time.Duration {
			if b >= 5 {
				return usual * 4 / 5
			}
			return usual
		}, void: []int{5, 6, 7, 8}, named: "core 1 runs at 125%"},
		"sinks in 6 alone": {read: func(b, _ int) time.Duration {
			if b == 6 {
				return usual * 2
			}
			return usual
		}, void: []int{6}, named: "core 1 runs at 50%"},
		"one reading of 6 is late": {read: func(b, r int) time.Duration {
			if b == 6 && r == 0 {
				return usual * 2
			}
			return usual
		}},
		"drifts by 1% a block": {read: func(b, _ int) time.Duration { return usual + time.Duration(b)*usual/100 }},
		"cannot be read":       {read: func(int, int) time.Duration { return 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			s := m.source()
			block, reading := 0, 0
			s.Clock = func(cpus []int) map[int]time.Duration {
				out := map[int]time.Duration{0: usual, 1: c.read(block, reading)}
				reading++
				return out
			}
			w := NewWatch(s, []int{0, 1}, DefaultLimits())
			for block = range 16 {
				reading = 0
				begin := w.Begin()
				m.pass(100 * time.Millisecond)
				b := w.End(begin)
				if b.Disturbed != slices.Contains(c.void, block) || b.Disturbed && !strings.Contains(b.Reasons[0], c.named) {
					t.Errorf("block %d: %+v", block, b)
				}
			}
		})
	}
}

// Reading a clock leaves threads where they were allowed to run; a core that is not there has no clock.
func TestReadClocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := jit.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if d := readClock(before[0]); d <= 0 {
		t.Errorf("core %d took %v", before[0], d)
	}
	if after, err := jit.Affinity(); err != nil || !slices.Equal(before, after) {
		t.Errorf("%v became %v (%v)", before, after, err)
	}
	if now := readClocks([]int{before[0], 100000}); len(now) != 1 {
		t.Errorf("%v", now)
	}
}

// How far readings of one core scatter: what a clock that moved must stand out from.
func BenchmarkClock(b *testing.B) {
	cpus, err := jit.Affinity()
	if err != nil {
		b.Fatal(err)
	}
	var all []float64
	for b.Loop() {
		all = append(all, readClocks(cpus)[cpus[0]].Seconds())
	}
	middle := stat.Median(all)
	for name, p := range map[string]float64{"%-p25": 0.25, "%-p75": 0.75, "%-p98": 0.98} {
		b.ReportMetric(100*(stat.Quantile(all, p)/middle-1), name)
	}
}
