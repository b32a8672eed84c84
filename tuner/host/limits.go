package host

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// limits finds the CPUs, CPU time and memory that this process may use.
func (t tree) limits(cpus []Logical, affinity func() ([]int, error)) (Limits, error) {
	c := cgroupOf(t)
	var l Limits
	l.Cgroup, l.Quota, l.MemoryBytes = c.version, c.quota(), c.memory()
	set := c.cpuset()
	var mask []int
	if affinity != nil {
		var err error
		if mask, err = affinity(); err != nil {
			return l, fmt.Errorf("host profile: affinity: %w", err)
		}
	}
	for _, cpu := range cpus {
		if (len(set) == 0 || slices.Contains(set, cpu.ID)) && (mask == nil || slices.Contains(mask, cpu.ID)) {
			l.Allowed = append(l.Allowed, cpu.ID)
		}
	}
	if len(l.Allowed) == 0 {
		return l, fmt.Errorf("host profile: cpuset %v and affinity %v leave no online CPU", set, mask)
	}
	return l, nil
}

// cgroup finds this process's control-group files, in version 1 and 2.
type cgroup struct {
	t       tree
	version string
	dirs    map[string][]string // controller -> directories, from its own to the root's
}

func cgroupOf(t tree) cgroup {
	c := cgroup{t: t, dirs: map[string][]string{}}
	const root = "sys/fs/cgroup"
	v2 := t.exists(root + "/cgroup.controllers")
	for line := range strings.Lines(t.text("proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[1] == "" && v2:
			c.version = "v2"
			c.dirs["cpu"] = upwards(root, f[2])
			c.dirs["cpuset"], c.dirs["memory"] = c.dirs["cpu"], c.dirs["cpu"]
		case f[1] != "" && !v2:
			for name := range strings.SplitSeq(f[1], ",") {
				for _, mount := range []string{f[1], name} { // mounted under the joint or its own name
					if t.exists(root + "/" + mount) {
						c.version = "v1"
						c.dirs[name] = upwards(root+"/"+mount, f[2])
						break
					}
				}
			}
		}
	}
	return c
}

// upwards lists the directory of a group and of its ancestors. A container may show a path that is
// not mounted: the root always is.
func upwards(root, group string) []string {
	var out []string
	for p := path.Clean("/" + group); ; p = path.Dir(p) {
		if d := path.Join(root, p); fs.ValidPath(d) {
			out = append(out, d)
		}
		if p == "/" {
			return out
		}
	}
}

// quota is the least number of CPUs that the group or an ancestor grants, 0 for no limit.
func (c cgroup) quota() float64 {
	least := 0.0
	for _, d := range c.dirs["cpu"] {
		limit, period := c.t.text(d+"/cpu.cfs_quota_us"), c.t.text(d+"/cpu.cfs_period_us")
		if c.version == "v2" {
			limit, period, _ = strings.Cut(c.t.text(d+"/cpu.max"), " ")
		}
		q, err1 := strconv.ParseFloat(limit, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 && (least == 0 || q/p < least) {
			least = q / p
		}
	}
	return least
}

// memory is the least memory limit in bytes, 0 for none.
func (c cgroup) memory() int64 {
	const none = 1 << 60 // v1 says "no limit" with a huge number
	least := int64(0)
	file := "/memory.limit_in_bytes"
	if c.version == "v2" {
		file = "/memory.max"
	}
	for _, d := range c.dirs["memory"] {
		n, err := strconv.ParseInt(c.t.text(d+file), 10, 64)
		if err == nil && n > 0 && n < none && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// cpuset lists the CPUs of the nearest group that names any, nil for all.
func (c cgroup) cpuset() []int {
	for _, d := range c.dirs["cpuset"] {
		for _, file := range []string{"/cpuset.cpus.effective", "/cpuset.effective_cpus", "/cpuset.cpus"} {
			if l := cpuList(c.t.text(d + file)); len(l) > 0 {
				return l
			}
		}
	}
	return nil
}

// Throttled returns how often and for how long (in nanoseconds) this process's control group and
// its ancestors were throttled since they exist; ok is false if no group says.
func Throttled(fsys fs.FS) (periods, nanos int64, ok bool) {
	c := cgroupOf(tree{fsys})
	for _, d := range c.dirs["cpu"] {
		for line := range strings.Lines(c.t.text(d + "/cpu.stat")) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				continue
			}
			switch k {
			case "nr_throttled":
				periods, ok = periods+n, true
			case "throttled_usec":
				nanos += n * 1000
			case "throttled_time":
				nanos += n
			}
		}
	}
	return periods, nanos, ok
}
