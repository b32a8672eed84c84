package preflight

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Thread is what the scheduler says of a thread so far.
type Thread struct {
	Ran    time.Duration
	Waited time.Duration // ready to run, without a CPU
	Forced int64         // switches that it did not ask for: only known, and needed, where the times are not
}

// Threads looks at the threads of a process, by thread; none where the kernel does not say.
func Threads(fsys fs.FS, pid int) map[int]Thread {
	out := map[int]Thread{}
	dir := fmt.Sprintf("proc/%d/task", pid)
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return out
	}
	s := Source{FS: fsys}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			if t, ok := parseSched(s.read(dir + "/" + e.Name() + "/schedstat")); ok {
				out[tid] = t
			} else if n, ok := parseForced(s.read(dir + "/" + e.Name() + "/status")); ok {
				out[tid] = Thread{Forced: n}
			}
		}
	}
	return out
}

// parseSched reads a schedstat file: ns on a CPU, ns ready without one, times on a CPU. All three are
// zero where the kernel does not count them.
func parseSched(text string) (Thread, bool) {
	f := strings.Fields(text)
	if len(f) < 3 {
		return Thread{}, false
	}
	var v [3]int64
	for i := range v {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil || n < 0 {
			return Thread{}, false
		}
		v[i] = n
	}
	return Thread{Ran: time.Duration(v[0]), Waited: time.Duration(v[1])}, v != [3]int64{}
}

func parseForced(text string) (int64, bool) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "nonvoluntary_ctxt_switches:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// How a Wait is known.
const (
	BySched    = "schedstat"
	BySwitches = "switches" // coarser: forced switches, each taken for a slice
)

// Wait is how far something kept the threads that do the work from their CPUs: the time that the one
// kept longest stood ready without a CPU, as a share of the block. It is counted in nanoseconds, so a
// block of a few milliseconds shows what the ticks of /proc/stat do not.
type Wait struct {
	Share float64 `json:"share"`
	By    string  `json:"by,omitempty"` // "" where the kernel does not say
}

// MaxWait is the share of a block beyond which a wait voids it: of 2, 5, 10 and 20% the one that leaves the
// narrowest interval of an arm against itself, idle and with a core kept busy in bursts (tune noise,
// BENCHMARKS.md). A slice is more than this share of any block shorter than 15 ms.
const MaxWait = 0.20

// slice is about what a thread waits that is sent off its CPU (the base slice of EEVDF).
const slice = 3 * time.Millisecond

// Waited compares two looks at a process, a block apart. Threads that neither ran nor wanted to for a
// quarter of what the busiest did are not counted: nothing waits for them.
func Waited(before, after map[int]Thread, block time.Duration) Wait {
	var most, longest time.Duration
	var forced int64
	timed := false
	want := func(tid int, t Thread) time.Duration { return t.Ran - before[tid].Ran + t.Waited - before[tid].Waited }
	for tid, t := range after {
		most = max(most, want(tid, t))
		forced = max(forced, t.Forced-before[tid].Forced)
		timed = timed || t.Ran > 0
	}
	switch {
	case len(after) == 0 || block <= 0:
		return Wait{}
	case !timed:
		return Wait{ratio(time.Duration(forced)*slice, block), BySwitches}
	}
	for tid, t := range after {
		if want(tid, t) >= most/4 {
			longest = max(longest, t.Waited-before[tid].Waited)
		}
	}
	return Wait{ratio(longest, block), BySched}
}

// Why says why a block with this wait does not count, "" if it does.
func (w Wait) Why() string {
	if w.Share <= MaxWait {
		return ""
	}
	return fmt.Sprintf("a worker stood ready without a CPU for %.1f%% of the block", 100*w.Share)
}
