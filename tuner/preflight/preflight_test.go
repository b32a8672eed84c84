package preflight

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// machine is a made-up host: two cores, a clock that only Sleep moves, processes that use what the
// test says while it does.
type machine struct {
	fs   fstest.MapFS
	mono time.Duration
	wall time.Time
	busy [2]time.Duration // of each core
	lost [2]time.Duration // steal
	proc map[int]*process
	// onSleep is called with each sleep's length, to let things happen in it.
	onSleep func(d time.Duration)
}

func newMachine() *machine {
	m := &machine{fs: fstest.MapFS{}, wall: time.Unix(1e9, 0), proc: map[int]*process{
		100: {pid: 100, parent: 1, command: "tune"},
		101: {pid: 101, parent: 100, command: "runner (x)"},
		200: {pid: 200, parent: 1, command: "stress"},
	}}
	m.set("proc/self/cgroup", "0::/\n")
	m.set("sys/fs/cgroup/cgroup.controllers", "cpu")
	m.set("sys/fs/cgroup/cpu.stat", "nr_throttled 0")
	m.set("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 total=0")
	m.clock(0, 3000000)
	m.clock(1, 3000000)
	m.sync()
	return m
}

func (m *machine) set(path, text string) { m.fs[path] = &fstest.MapFile{Data: []byte(text)} }

func (m *machine) sync() {
	stat := "cpu 0 0 0 0 0 0 0 0 0 0\n"
	for i := range m.busy {
		idle := m.mono - m.busy[i] - m.lost[i]
		stat += fmt.Sprintf("cpu%d %d 0 0 %d 0 0 0 %d 0 0\n", i, m.busy[i]/tick, idle/tick, m.lost[i]/tick)
	}
	m.set("proc/stat", stat+"intr 0\n")
	for pid, p := range m.proc {
		fields := make([]string, 50)
		for i := range fields {
			fields[i] = "0"
		}
		fields[0], fields[1] = "R", fmt.Sprint(p.parent)
		fields[14-3], fields[16-3], fields[39-3] = fmt.Sprint(int64(p.used/tick)), fmt.Sprint(int64(p.reaped/tick)), fmt.Sprint(p.cpu)
		m.set(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) %s", pid, p.command, strings.Join(fields, " ")))
	}
}

func (m *machine) pass(d time.Duration) {
	m.mono += d
	m.wall = m.wall.Add(d)
	if m.onSleep != nil {
		m.onSleep(d)
	}
	m.sync()
}

// run lets a process use a share of a core.
func (m *machine) run(pid, core int, d time.Duration) {
	m.busy[core] += d
	m.proc[pid].used += d
	m.proc[pid].cpu = core
}

func (m *machine) source() Source {
	return Source{FS: m.fs, Mono: func() time.Duration { return m.mono }, Wall: func() time.Time { return m.wall }, Sleep: m.pass, Self: 100}
}

func (m *machine) battery() {
	m.set("sys/class/power_supply/BAT0/type", "Battery")
	m.set("sys/class/power_supply/BAT0/status", "Discharging")
}

func (m *machine) clock(core, khz int) {
	m.set(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", core), fmt.Sprint(khz))
}

func TestGuard(t *testing.T) {
	windows := 0
	for _, c := range []struct {
		name  string
		quiet bool
		want  string // in the error
		play  func(m *machine, d time.Duration)
	}{
		{"idle", true, "", func(*machine, time.Duration) {}},
		{"a little", true, "", func(m *machine, d time.Duration) { m.run(200, 0, d/50) }},
		{"one busy core", false, "core 1 is 90% busy", func(m *machine, d time.Duration) { m.run(200, 1, d*9/10) }},
		{"named", false, "stress (pid 200, 90%)", func(m *machine, d time.Duration) { m.run(200, 1, d*9/10) }},
		{"aggregate", false, "6.0% of the target cores", func(m *machine, d time.Duration) { m.run(200, 0, d*12/100) }},
		{"burst in one window", true, "", func(m *machine, d time.Duration) {
			if windows++; windows == 1 {
				m.run(200, 1, d)
			}
		}},
		{"steal", false, "hypervisor takes 20.0%", func(m *machine, d time.Duration) { m.lost[0] += d * 4 / 10 }},
		{"throttled", false, "quota throttled", func(m *machine, d time.Duration) { m.set("sys/fs/cgroup/cpu.stat", "nr_throttled 3") }},
		{"memory", false, "stalled for memory 50%", func(m *machine, d time.Duration) {
			m.set("proc/pressure/memory", fmt.Sprintf("some avg10=9 total=%d", (m.mono/2).Microseconds()))
		}},
		{"heat", false, "throttled for heat 2 times", func(m *machine, d time.Duration) {
			m.set("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "2")
		}},
		{"battery", false, "on battery", func(m *machine, d time.Duration) { m.battery() }},
		{"clock limit", false, "core 1 went from 3000 to 1800 MHz", func(m *machine, d time.Duration) { m.clock(1, 1800000) }},
		{"clock", false, "wall clock jumped by 2s", func(m *machine, d time.Duration) { m.wall = m.wall.Add(time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			windows = 0
			m := newMachine()
			m.onSleep = func(d time.Duration) { c.play(m, d) }
			r := Guard(m.source(), []int{0, 1}, DefaultLimits())
			if r.Quiet != c.quiet {
				t.Fatalf("quiet %t: %+v", r.Quiet, r)
			}
			if err := r.Err(); c.quiet != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestGuardLooksAtTargetCoresOnly(t *testing.T) {
	m := newMachine()
	m.onSleep = func(d time.Duration) { m.run(200, 1, d) }
	if r := Guard(m.source(), []int{0}, DefaultLimits()); !r.Quiet {
		t.Errorf("a busy core that is not a target: %v", r.Err())
	}
}

// Blocks may lie within each other: each has its own beginning.
func TestNestedBlocks(t *testing.T) {
	m := newMachine()
	w := NewWatch(m.source(), []int{0, 1}, DefaultLimits())
	outer := w.Begin()
	m.onSleep = func(d time.Duration) { m.run(200, 0, d) }
	m.pass(time.Second)
	m.onSleep = nil
	inner := w.Begin()
	m.pass(time.Second)
	if in, out := w.End(inner), w.End(outer); in.Disturbed || !out.Disturbed || out.Duration != 2*time.Second {
		t.Errorf("inner %+v, outer %+v", in, out)
	}
}

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name, want string
		play       func(m *machine, d time.Duration)
	}{
		{"own work alone", "", func(m *machine, d time.Duration) { m.run(100, 0, d); m.run(101, 1, d) }},
		{"a child that ends", "", func(m *machine, d time.Duration) {
			m.run(100, 0, d)
			m.run(101, 1, d)
			m.proc[100].reaped += m.proc[101].used
			delete(m.proc, 101)
			delete(m.fs, "proc/101/stat")
		}},
		{"others", "other processes used 25.0%", func(m *machine, d time.Duration) {
			m.run(100, 0, d)
			m.run(101, 1, d/2)
			m.run(200, 1, d/2)
		}},
		{"steal", "hypervisor took 10.0%", func(m *machine, d time.Duration) { m.run(100, 0, d); m.lost[1] += d / 5 }},
		{"throttled", "throttled this process in 1 periods", func(m *machine, d time.Duration) {
			m.set("sys/fs/cgroup/cpu.stat", "nr_throttled 1")
		}},
		{"battery", "on battery", func(m *machine, d time.Duration) { m.battery() }},
		{"heat", "throttled for heat 3 times", func(m *machine, d time.Duration) {
			m.set("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "3")
		}},
		{"clock limit", "core 0 went from 3000 to 2200 MHz", func(m *machine, d time.Duration) { m.clock(0, 2200000) }},
		{"wall clock", "wall clock jumped by 1s", func(m *machine, d time.Duration) { m.wall = m.wall.Add(time.Second) }},
		{"wall clock set back", "wall clock jumped by -1s", func(m *machine, d time.Duration) { m.wall = m.wall.Add(-time.Second) }},
		{"memory", "stalled for memory 25%", func(m *machine, d time.Duration) {
			m.set("proc/pressure/memory", fmt.Sprintf("some avg10=9 total=%d", (m.mono/4).Microseconds()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine()
			m.proc[101].used = 5 * time.Second // before the block
			m.sync()
			w := NewWatch(m.source(), []int{0, 1}, DefaultLimits())
			begin := w.Begin()
			m.onSleep = func(d time.Duration) { c.play(m, d) }
			m.pass(2 * time.Second)
			b := w.End(begin)
			if b.Disturbed != (c.want != "") || !strings.Contains(strings.Join(b.Reasons, ";"), c.want) {
				t.Errorf("%+v, want %q", b, c.want)
			}
		})
	}
}

// A block of a few ticks cannot tell a tick of somebody else's from rounding.
func TestShortBlocksAreNotCondemnedByRounding(t *testing.T) {
	m := newMachine()
	w := NewWatch(m.source(), []int{0, 1}, DefaultLimits())
	begin := w.Begin()
	m.busy[0] += 3 * tick
	m.pass(50 * time.Millisecond)
	if b := w.End(begin); b.Disturbed {
		t.Errorf("%+v", b)
	}
}

func TestLive(t *testing.T) {
	s := Live()
	s.Sleep = func(time.Duration) { time.Sleep(20 * time.Millisecond) }
	r := Guard(s, []int{0}, DefaultLimits())
	if len(r.Cores) != 1 || r.Quiet == (r.Err() != nil) {
		t.Errorf("%+v", r)
	}
	w := NewWatch(s, []int{0}, DefaultLimits())
	if b := w.End(w.Begin()); b.Duration <= 0 {
		t.Errorf("%+v", b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("cpu0 1 2 3 4 5 6 7 8 9 10\n", "1 (a) b) R 1 2 3", "some avg10=0 total=12\n")
	f.Fuzz(func(t *testing.T, stat, proc, psi string) {
		parseStat(stat)
		parseProcess(1, proc)
		parsePressure(psi)
		parseSched(stat)
		parseForced(proc)
	})
}
