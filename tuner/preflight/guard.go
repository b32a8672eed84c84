package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits are the thresholds of the guard and of the watch. Shares are fractions of the target cores'
// capacity.
type Limits struct {
	Window    time.Duration // of the guard, twice
	Aggregate float64       // taken by others, over all target cores
	Core      float64       // taken by others from any one core, in both windows
	Steal     float64       // taken by the hypervisor
	Memory    float64       // of the time, some task stalled for memory
	Jump      time.Duration // of the wall clock against the monotonic one
	Clock     float64       // by which a core's clock differs from that of the blocks before
}

// DefaultLimits refuse above 5% of stolen capacity, or 50% of any one core.
func DefaultLimits() Limits {
	return Limits{Window: 500 * time.Millisecond, Aggregate: 0.05, Core: 0.5, Steal: 0.05, Memory: 0.05, Jump: 50 * time.Millisecond, Clock: 0.10}
}

// CoreLoad is the load of one target core: the lesser of the two windows, so that a burst does not
// condemn a core.
type CoreLoad struct {
	CPU  int     `json:"cpu"`
	Busy float64 `json:"busy"`
}

// Report says whether a host is quiet, and if not, why and because of whom.
type Report struct {
	Quiet     bool       `json:"quiet"`
	Reasons   []string   `json:"reasons,omitempty"`
	Cores     []CoreLoad `json:"cores"`
	Aggregate float64    `json:"aggregate"`
	Steal     float64    `json:"steal"`
	Processes []Process  `json:"processes,omitempty"` // foreign, busiest first
}

// Err is nil for a quiet host, else an error that names the reasons and the busy processes.
func (r Report) Err() error {
	if r.Quiet {
		return nil
	}
	msg := "host busy: " + strings.Join(r.Reasons, "; ")
	if len(r.Processes) > 0 {
		names := make([]string, len(r.Processes))
		for i, p := range r.Processes {
			names[i] = fmt.Sprintf("%s (pid %d, %.0f%%)", p.Command, p.Pid, 100*p.Share)
		}
		msg += "; busy: " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%s", msg)
}

// Guard observes the target cores for two windows while this process is idle. The load of a core is
// the lesser of the two.
func Guard(s Source, cpus []int, lim Limits) Report {
	a := s.take(cpus)
	s.Sleep(lim.Window)
	b := s.take(cpus)
	s.Sleep(lim.Window)
	c := s.take(cpus)

	var r Report
	for _, id := range cpus {
		l := CoreLoad{id, min(load(a, b, id), load(b, c, id))}
		r.Cores = append(r.Cores, l)
		r.Aggregate += l.Busy / float64(len(cpus))
		r.Steal += min(steal(a, b, id), steal(b, c, id)) / float64(len(cpus))
		if l.Busy > lim.Core {
			r.Reasons = append(r.Reasons, fmt.Sprintf("core %d is %.0f%% busy, at most %.0f%%", id, 100*l.Busy, 100*lim.Core))
		}
	}
	if r.Aggregate > lim.Aggregate {
		r.Reasons = append(r.Reasons, fmt.Sprintf("%.1f%% of the target cores is in use, at most %.0f%%", 100*r.Aggregate, 100*lim.Aggregate))
	}
	if r.Steal > lim.Steal {
		r.Reasons = append(r.Reasons, fmt.Sprintf("the hypervisor takes %.1f%%", 100*r.Steal))
	}
	r.Reasons = append(r.Reasons, conditions(a, c, lim)...)
	foreign, _ := between(a, c, s.Self)
	r.Processes = busiest(foreign)
	r.Quiet = len(r.Reasons) == 0
	return r
}

// conditions are the disturbances that hold for a guard and for a block alike.
func conditions(a, b sample, lim Limits) []string {
	var out []string
	window := b.mono - a.mono
	if n := b.throttled - a.throttled; n > 0 {
		out = append(out, fmt.Sprintf("the control group's CPU quota throttled this process in %d periods", n))
	}
	if share := ratio(b.memory-a.memory, window); share > lim.Memory {
		out = append(out, fmt.Sprintf("tasks stalled for memory %.0f%% of the time", 100*share))
	}
	if n := b.power.Throttles - a.power.Throttles; n > 0 {
		out = append(out, fmt.Sprintf("the CPU throttled for heat %d times", n))
	}
	if a.power.OnBattery || b.power.OnBattery {
		out = append(out, "on battery: clocks may be held down")
	}
	for _, id := range slices.Sorted(maps.Keys(b.clocks)) {
		if was, is := a.clocks[id], b.clocks[id]; was != is && was > 0 && is > 0 {
			out = append(out, fmt.Sprintf("the clock limit of core %d went from %d to %d MHz", id, was/1000, is/1000))
		}
	}
	if jump := b.wall.Sub(a.wall) - window; jump.Abs() > lim.Jump {
		out = append(out, fmt.Sprintf("the wall clock jumped by %v: suspended or set", jump.Round(time.Millisecond)))
	}
	return out
}

// busiest are the processes worth naming: at most five, above 1% of a CPU.
func busiest(ps []Process) []Process {
	n := 0
	for n < len(ps) && n < 5 && ps[n].Share >= 0.01 {
		n++
	}
	return ps[:n:n]
}

// load is the share of a window in which a CPU was busy.
func load(a, b sample, cpu int) float64 {
	return ratio(b.cpus[cpu].busy-a.cpus[cpu].busy, elapsed(a, b, cpu))
}

func steal(a, b sample, cpu int) float64 {
	return ratio(b.cpus[cpu].steal-a.cpus[cpu].steal, elapsed(a, b, cpu))
}

// elapsed is what a CPU accounted for; without idle ticks being lost it is the window.
func elapsed(a, b sample, cpu int) time.Duration {
	x, y := a.cpus[cpu], b.cpus[cpu]
	return max(y.busy+y.idle+y.steal-x.busy-x.idle-x.steal, b.mono-a.mono)
}

func ratio(part, whole time.Duration) float64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
