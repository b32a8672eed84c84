package preflight

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// ThreadTimes is the CPU time of each thread of a process so far, by thread; none where the kernel does
// not say.
func ThreadTimes(fsys fs.FS, pid int) map[int]time.Duration {
	out := map[int]time.Duration{}
	dir := fmt.Sprintf("proc/%d/task", pid)
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return out
	}
	s := Source{FS: fsys}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		f := strings.Fields(s.read(dir + "/" + e.Name() + "/schedstat")) // ns on a CPU, ns waiting, slices
		if err != nil || len(f) < 1 {
			continue
		}
		if ns, err := strconv.ParseInt(f[0], 10, 64); err == nil {
			out[tid] = time.Duration(ns)
		}
	}
	return out
}

// Workers is the number of threads that did a share of the work between two looks: at least a quarter
// of what the busiest did.
func Workers(before, after map[int]time.Duration) int {
	most, n := time.Duration(0), 0
	for tid, d := range after {
		most = max(most, d-before[tid])
	}
	for tid, d := range after {
		if used := d - before[tid]; used > 0 && used >= most/4 {
			n++
		}
	}
	return n
}
