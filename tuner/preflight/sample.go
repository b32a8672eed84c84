// Package preflight decides whether a host is quiet enough to measure on, and says afterwards
// whether a measured block was disturbed. It looks at the target cores, not at the whole host; names
// the processes that use them; and knows steal, throttling, pressure, heat, battery and clocks that move.
package preflight

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tilewright/tilewright/tuner/host"
)

// tick is the unit of /proc/stat and /proc/PID/stat: USER_HZ is 100 on Linux's amd64 and arm64.
const tick = 10 * time.Millisecond

// Source is where observations come from; all of it can be replaced.
type Source struct {
	FS    fs.FS                // rooted at /
	Mono  func() time.Duration // monotonic
	Wall  func() time.Time     // wall clock
	Sleep func(time.Duration)  // between two samples
	Self  int                  // pid of the root of the tree that is not foreign
	// Clock says how long the same steps take on each core at this moment; nil if nobody can say.
	Clock func(cpus []int) map[int]time.Duration
}

// Live observes this machine.
func Live() Source {
	start := time.Now()
	return Source{
		FS:    os.DirFS("/"),
		Mono:  func() time.Duration { return time.Since(start) },
		Wall:  func() time.Time { return time.Now().Round(0) },
		Sleep: time.Sleep,
		Self:  os.Getpid(),
		Clock: readClocks,
	}
}

// cpuTime is one line of /proc/stat.
type cpuTime struct{ busy, idle, steal time.Duration }

// process is what a line of /proc/PID/stat says.
type process struct {
	pid, parent int
	command     string
	used        time.Duration // user and system time
	reaped      time.Duration // the same of its children that have ended
	cpu         int           // where it ran last
}

// sample is everything that is read at one instant.
type sample struct {
	mono      time.Duration
	wall      time.Time
	cpus      map[int]cpuTime
	procs     map[int]process
	throttled int64         // periods in which the control group was throttled
	memory    time.Duration // some task stalled for memory, total
	power     host.Power
	clocks    map[int]int64 // kHz that each target core may run at, 0 where the kernel does not say
}

func (s Source) take(cpus []int) sample {
	out := sample{mono: s.Mono(), wall: s.Wall(), cpus: parseStat(s.read("proc/stat"))}
	out.procs = s.processes()
	out.throttled, _, _ = host.Throttled(s.FS)
	out.memory = parsePressure(s.read("proc/pressure/memory"))
	logical := make([]host.Logical, len(cpus))
	for i, id := range cpus {
		logical[i].ID = id
	}
	out.power = host.ReadPower(s.FS, logical)
	out.clocks = map[int]int64{}
	for _, id := range cpus {
		khz := strings.TrimSpace(s.read("sys/devices/system/cpu/cpu" + strconv.Itoa(id) + "/cpufreq/scaling_max_freq"))
		out.clocks[id], _ = strconv.ParseInt(khz, 10, 64)
	}
	return out
}

func (s Source) read(path string) string {
	f, err := s.FS.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		return ""
	}
	return string(b)
}

// parseStat reads the per-CPU lines of /proc/stat. Guest time is part of user time already.
func parseStat(text string) map[int]cpuTime {
	out := map[int]cpuTime{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		id, err := strconv.Atoi(f[0][3:])
		if err != nil {
			continue
		}
		var v [9]int64
		for i := 1; i < 9; i++ {
			v[i], _ = strconv.ParseInt(f[i], 10, 64)
		}
		busy := v[1] + v[2] + v[3] + v[6] + v[7] // user nice system irq softirq
		out[id] = cpuTime{busy: time.Duration(busy) * tick, idle: time.Duration(v[4]+v[5]) * tick, steal: time.Duration(v[8]) * tick}
	}
	return out
}

func (s Source) processes() map[int]process {
	out := map[int]process{}
	entries, err := fs.ReadDir(s.FS, "proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := parseProcess(pid, s.read("proc/"+e.Name()+"/stat")); ok {
				out[pid] = p
			}
		}
	}
	return out
}

// parseProcess reads /proc/PID/stat; the command may hold spaces and parentheses.
func parseProcess(pid int, text string) (process, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	f := strings.Fields(text[end+1:])
	const state = 3 // number of the first field behind the command
	field := func(n int) int64 {
		if n-state >= len(f) {
			return 0
		}
		v, _ := strconv.ParseInt(f[n-state], 10, 64)
		return v
	}
	if len(f) < 2 {
		return process{}, false
	}
	return process{pid: pid, parent: int(field(4)), command: text[open+1 : end], cpu: int(field(39)),
		used: time.Duration(field(14)+field(15)) * tick, reaped: time.Duration(field(16)+field(17)) * tick}, true
}

// parsePressure reads the total of the "some" line, in microseconds, of a /proc/pressure file.
func parsePressure(text string) time.Duration {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		for _, f := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(f, "total="); ok {
				n, _ := strconv.ParseInt(v, 10, 64)
				return time.Duration(n) * time.Microsecond
			}
		}
	}
	return 0
}

// tree lists the pids of self and its descendants.
func (s sample) tree(self int) map[int]bool {
	own := map[int]bool{self: true}
	for grew := true; grew; {
		grew = false
		for pid, p := range s.procs {
			if !own[pid] && own[p.parent] {
				own[pid], grew = true, true
			}
		}
	}
	return own
}

// Process is a process that used CPU time in a window.
type Process struct {
	Pid     int     `json:"pid"`
	Command string  `json:"command"`
	CPU     int     `json:"cpu"`   // where it ran last
	Share   float64 `json:"share"` // of one CPU
}

// ownTime is the CPU time of the own tree so far, ended and reaped members included.
func (s sample) ownTime(mine map[int]bool) time.Duration {
	var sum time.Duration
	for pid := range mine {
		sum += s.procs[pid].used + s.procs[pid].reaped
	}
	return sum
}

// between lists foreign processes by CPU time used between two samples, and the time that the own
// tree used.
func between(a, b sample, self int) (foreign []Process, own time.Duration) {
	window := b.mono - a.mono
	if window <= 0 {
		return nil, 0
	}
	mine := b.tree(self)
	for pid, p := range b.procs {
		used := p.used - a.procs[pid].used
		if !mine[pid] && used > 0 {
			foreign = append(foreign, Process{pid, p.command, p.cpu, float64(used) / float64(window)})
		}
	}
	slices.SortFunc(foreign, func(a, b Process) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), a.Pid-b.Pid)
	})
	return foreign, b.ownTime(mine) - a.ownTime(a.tree(self))
}
