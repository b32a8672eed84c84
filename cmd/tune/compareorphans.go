package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of whatever loses its own: a process that a command left behind,
// in whatever session, stays in sight. It returns the children that are here already.
func adopt() ([]int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot keep what commands leave behind in sight: %w", err)
	}
	return children(), nil
}

// children of this process.
func children() []int {
	lists, err := filepath.Glob("/proc/self/task/*/children")
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
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// since are the children that were not here before.
func since(before []int) []int {
	return slices.DeleteFunc(children(), func(pid int) bool { return slices.Contains(before, pid) })
}

// end kills the children that came since, and theirs, which become ours when they lose them.
func end(before []int) {
	for late := time.Now().Add(2 * time.Second); time.Now().Before(late); time.Sleep(time.Millisecond) {
		left := since(before)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
