package main

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/engine/bench"
)

// adopting makes this process the parent of whatever loses its own: a process that a command left behind,
// in whatever session, stays in sight. Where the kernel refuses that only the command's own group does.
var adopting = sync.OnceFunc(func() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		slog.Warn("what commands leave behind in sessions of their own goes unseen", "why", err)
	}
})

// adopt takes over what commands will leave behind, and returns the children that are here already.
func adopt() []int {
	adopting()
	return bench.Children(os.Getpid())
}

// since are the children that were not here before.
func since(before []int) []int {
	return slices.DeleteFunc(bench.Children(os.Getpid()), func(pid int) bool { return slices.Contains(before, pid) })
}

// end kills the children that came since, and theirs, which become ours when they lose them.
func end(before []int) {
	left := since(before)
	for late := time.Now().Add(2 * time.Second); len(left) > 0 && time.Now().Before(late); left = since(before) {
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		time.Sleep(time.Millisecond)
	}
	if len(left) > 0 {
		slog.Warn("processes that a command left behind do not end: they disturb what follows", "pids", left)
	}
}
