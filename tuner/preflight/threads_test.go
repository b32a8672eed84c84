package preflight

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

func TestThreads(t *testing.T) {
	m := newMachine()
	set := func(tid, ns int) { m.set(fmt.Sprintf("proc/7/task/%d/schedstat", tid), fmt.Sprintf("%d 5 3", ns)) }
	set(7, 1000)
	set(8, 500)
	want := map[int]Thread{7: {Ran: 1000, Waited: 5}, 8: {Ran: 500, Waited: 5}}
	if got := Threads(m.fs, 7); !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Threads(m.fs, 8); len(got) != 0 {
		t.Errorf("%+v of no process", got)
	}
}

// A thread that stood ready without a CPU voids a block however short it is; one that nothing waits for
// does not; and where the kernel counts no times, forced switches stand for them.
func TestWaited(t *testing.T) {
	const ms = 1_000_000
	sched := func(ran, waited int) string { return fmt.Sprintf("%d %d 9\n", ran, waited) }
	status := func(n int) string {
		return fmt.Sprintf("Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t%d\n", n)
	}
	for _, c := range []struct {
		name          string
		file          string
		before, after [3]string // of two workers and of a thread of the runtime
		want          Wait
		void          bool
	}{
		{"nobody waited", "schedstat", [3]string{sched(5*ms, 3*ms), sched(5*ms, 0), sched(1, 1)},
			[3]string{sched(15*ms, 3*ms), sched(15*ms, ms/2), sched(2, 1)}, Wait{0.05, BySched}, false},
		{"one was sent off", "schedstat", [3]string{sched(5*ms, 0), sched(5*ms, 0), sched(1, 1)},
			[3]string{sched(12*ms, 3*ms), sched(15*ms, 0), sched(1, 1)}, Wait{0.3, BySched}, true},
		{"one never ran", "schedstat", [3]string{sched(5*ms, 0), sched(5*ms, 0), sched(1, 1)},
			[3]string{sched(5*ms, 10*ms), sched(15*ms, 0), sched(1, 1)}, Wait{1, BySched}, true},
		{"a thread of the runtime waited", "schedstat", [3]string{sched(5*ms, 0), sched(5*ms, 0), sched(1, 1)},
			[3]string{sched(15*ms, 0), sched(15*ms, 0), sched(ms/10, ms)}, Wait{0, BySched}, false},
		{"no times, forced", "status", [3]string{status(4), status(1), status(0)},
			[3]string{status(5), status(1), status(0)}, Wait{0.3, BySwitches}, true},
		{"no times, not forced", "status", [3]string{status(4), status(1), status(0)},
			[3]string{status(4), status(1), status(0)}, Wait{0, BySwitches}, false},
		{"nothing is known", "other", [3]string{}, [3]string{}, Wait{}, false},
	} {
		m := newMachine()
		look := func(texts [3]string) map[int]Thread {
			for i, text := range texts {
				m.set(fmt.Sprintf("proc/7/task/%d/%s", 7+i, c.file), text)
				if c.file == "status" {
					m.set(fmt.Sprintf("proc/7/task/%d/schedstat", 7+i), "0 0 0\n")
				}
			}
			return Threads(m.fs, 7)
		}
		before := look(c.before)
		if got := Waited(before, look(c.after), 10*time.Millisecond); got != c.want || (got.Why() != "") != c.void {
			t.Errorf("%s: %+v (%s), want %+v", c.name, got, got.Why(), c.want)
		}
	}
}
