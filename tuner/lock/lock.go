// Package lock keeps two measurements off the same host: one lock file for all users, held by flock
// for as long as the process lives, whatever way it ends.
package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Paths are where the lock file may be, in order of preference.
func Paths() []string {
	return []string{"/run/lock/tilewright.lock", filepath.Join(os.TempDir(), "tilewright.lock")}
}

// HeldError says who measures now.
type HeldError struct {
	Path    string
	Pid     int    // 0 if unknown
	Command string // "" if unknown
}

func (e *HeldError) Error() string {
	who := "another process"
	if e.Pid != 0 {
		who = fmt.Sprintf("process %d", e.Pid)
		if e.Command != "" {
			who += fmt.Sprintf(" (%s)", e.Command)
		}
	}
	return fmt.Sprintf("host busy: %s measures on this machine (lock %s): wait for it or end it", who, e.Path)
}

// Lock is the held host lock.
type Lock struct{ f *os.File }

// Acquire takes the host lock without waiting; it fails with *HeldError if another process has it.
// The first path that can be opened is the lock. Without arguments, Paths.
func Acquire(paths ...string) (*Lock, error) {
	if len(paths) == 0 {
		paths = Paths()
	}
	var errs []error
	for _, p := range paths {
		f, err := open(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			held := holder(f, p)
			f.Close()
			return nil, held
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("host lock %s: %w", p, err)
		}
		sign(f)
		return &Lock{f}, nil
	}
	return nil, fmt.Errorf("no host lock can be opened: %w", errors.Join(errs...))
}

// open opens a lock file without following links, and creates it if need be. A file of another user
// is opened for reading, which suffices for flock.
func open(path string) (*os.File, error) {
	const base = unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	f, err := os.OpenFile(path, base|os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		f, err = os.OpenFile(path, base|os.O_RDWR, 0)
	}
	if errors.Is(err, os.ErrPermission) {
		f, err = os.OpenFile(path, base|os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() || fi.Sys().(*syscall.Stat_t).Nlink != 1) {
		err = fmt.Errorf("host lock %s: not a plain file of its own: remove it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sign writes the holder's pid, for the message alone. It is best effort: another user's file stays
// as it is.
func sign(f *os.File) {
	if f.Truncate(0) == nil {
		f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
}

func holder(f *os.File, path string) *HeldError {
	e := &HeldError{Path: path}
	b, _ := io.ReadAll(io.LimitReader(f, 32))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || pid <= 0 {
		return e
	}
	cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return e // a stale pid of a file that somebody else could not sign
	}
	e.Pid, e.Command = pid, strings.TrimSpace(string(cmd))
	return e
}

// Release gives the lock back. The file stays: removing it would let two processes hold two files.
func (l *Lock) Release() error {
	l.f.Truncate(0)
	return l.f.Close()
}
