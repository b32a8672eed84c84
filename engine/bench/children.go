package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []int
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		// A process that ended has no stat.
		if stat, err := procStat(child); err == nil && len(stat) >= 2 && stat[1] == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out
}

// sharesMemory says whether a child has its parent's memory, as it does between vfork and exec, rather
// than some of its own. Where the kernel refuses to compare them (kcmp(2) in some containers) it has its
// own: a forked worker looks the same otherwise, and too much is better reported than too little.
func sharesMemory(child, parent int) bool {
	const kcmpVM = 1
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(child), uintptr(parent), kcmpVM, 0, 0, 0)
	return errno == 0 && order == 0
}

// procStat is /proc/PID/stat from the state on: state, parent and more.
func procStat(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// "PID (NAME) STATE PARENT ...", where a name may hold anything.
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])), err
}
