package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children are the processes that a process has started or taken over, and not yet waited for. Kernels
// without lists of them (CONFIG_PROC_CHILDREN) are asked for the parent of every process.
func Children(pid int) []int {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return childrenByParent(pid)
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var out []int
	for _, file := range lists {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread ended
		}
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

func childrenByParent(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the process ended
		}
		// "PID (NAME) STATE PARENT ...", where a name may hold anything.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 2 || f[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, child)
		}
	}
	return out
}
