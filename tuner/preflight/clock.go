package preflight

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/search/stat"
)

// A reading of a core's clock is the least of clockTries runs of clockSteps steps, each 6 operations that
// wait for each other: cycles, whatever shares the core's memory or units. The steps before let the core
// leave a lower clock that wide vectors asked for.
const (
	clockSettle = 700 * time.Microsecond
	clockTries  = 6
	clockSteps  = 4000
)

// clockKept is how many blocks back the clock of a block is compared with.
const clockKept = 7

// clockAgain is how often a reading is taken again that is out of bounds: what takes a core away for some
// microseconds is not its clock.
const clockAgain = 2

// clocks follows the speed of the target cores from block to block, as work leaves them: an idle core is
// slow to come up, so readings before a block would say little.
type clocks struct {
	mu   sync.Mutex
	last map[int][]float64 // readings in seconds, by core
}

// moved reads the clocks at the end of a block and says of which cores they are not what they were in the
// blocks before. A clock that stays where it went is the new one when it makes the median.
func (c *clocks) moved(s Source, cpus []int, limit float64) (why []string) {
	if s.Clock == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var now map[int]time.Duration
	for range 1 + clockAgain {
		if now = s.Clock(cpus); len(c.beyond(now, limit)) == 0 {
			break
		}
	}
	why = c.beyond(now, limit)
	for id, d := range now {
		if d <= 0 {
			continue
		}
		kept := append(c.last[id], d.Seconds())
		c.last[id] = kept[max(0, len(kept)-clockKept):]
	}
	return why
}

// beyond names the cores whose reading differs from the median of those before by more than limit.
func (c *clocks) beyond(now map[int]time.Duration, limit float64) (why []string) {
	for id, d := range now {
		if len(c.last[id]) == 0 || d <= 0 {
			continue
		}
		if speed := stat.Median(c.last[id]) / d.Seconds(); speed < 1-limit || speed > 1+limit {
			why = append(why, fmt.Sprintf("core %d runs at %.0f%% of the clock of the blocks before", id, 100*speed))
		}
	}
	slices.Sort(why)
	return why
}

// readClocks takes a reading of each core, all at once. A core that the process may not use has none.
func readClocks(cpus []int) map[int]time.Duration {
	out := map[int]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, id := range cpus {
		all.Go(func() {
			if d := readClock(id); d > 0 {
				mu.Lock()
				out[id] = d
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return out
}

// readClock takes a reading of one core, 0 if it cannot.
func readClock(cpu int) time.Duration {
	runtime.LockOSThread()
	before, err := jit.Affinity()
	if err != nil || jit.Pin(cpu) != nil {
		runtime.UnlockOSThread()
		return 0
	}
	x, least := uint64(1), time.Duration(0)
	for begun := time.Now(); time.Since(begun) < clockSettle; {
		x = steps(x, clockSteps)
	}
	for range clockTries {
		begun := time.Now()
		x = steps(x, clockSteps)
		if d := time.Since(begun); least == 0 || d < least {
			least = d
		}
	}
	if jit.SetAffinity(before) == nil { // else the thread ends with the goroutine
		runtime.UnlockOSThread()
	}
	if x == 0 { // never: the steps must not be optimised away
		return 0
	}
	return least
}

// steps are those of a xorshift generator (Marsaglia 2003), each operation of which needs the one before.
//
//go:noinline
func steps(x uint64, n int) uint64 {
	for ; n > 0; n-- {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
