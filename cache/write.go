package cache

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// writeStep names the points at which a write may be cut short; tests stop or fail there.
type writeStep string

const (
	stepCreate  writeStep = "create"
	stepWrite   writeStep = "write"
	stepSync    writeStep = "sync"
	stepRename  writeStep = "rename"
	stepSyncDir writeStep = "syncdir"
)

var writeSteps = []writeStep{stepCreate, stepWrite, stepSync, stepRename, stepSyncDir}

// failpoint, if set, is called before each step; an error makes the step fail with it.
var failpoint func(writeStep) error

// errCrash, returned by a failpoint, stands for the death of the process: nothing is cleaned up.
var errCrash = errors.New("crash")

const tempPrefix = ".tmp-"

// write publishes an entry atomically: a temporary file in the same folder, fsync, rename, fsync of
// the folder. A crash at any point leaves the old entry or the new one, and at most a stray
// temporary file that gc removes.
func (l *layer) write(k Kind, name string, data []byte) (err error) {
	dir := l.dirs[k]
	path := filepath.Join(l.path, string(k), name)
	at := func(s writeStep, err error) error {
		return fmt.Errorf("cache: %s %s: %w", s, path, err)
	}
	pass := func(s writeStep) error {
		if failpoint == nil {
			return nil
		}
		return failpoint(s)
	}
	tmp := tempPrefix + randomName()
	if err := pass(stepCreate); err != nil {
		return at(stepCreate, err)
	}
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return at(stepCreate, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() {
		f.Close()
		if err != nil && !errors.Is(err, errCrash) {
			_ = unix.Unlinkat(dir, tmp, 0)
		}
	}()
	if err := pass(stepWrite); err != nil {
		_, _ = f.Write(data[:len(data)/2]) // what a full disk or a kill leaves
		return at(stepWrite, err)
	}
	if _, err := f.Write(data); err != nil {
		return at(stepWrite, err)
	}
	if err := pass(stepSync); err != nil {
		return at(stepSync, err)
	}
	if err := f.Sync(); err != nil {
		return at(stepSync, err)
	}
	if err := pass(stepRename); err != nil {
		return at(stepRename, err)
	}
	err = unix.Renameat(dir, tmp, dir, name)
	if err == unix.EISDIR { // whatever put a folder there
		if err = l.remove(k, name); err == nil {
			err = unix.Renameat(dir, tmp, dir, name)
		}
	}
	if err != nil {
		return at(stepRename, err)
	}
	if err := pass(stepSyncDir); err != nil {
		return at(stepSyncDir, err)
	}
	if err := unix.Fsync(dir); err != nil {
		return at(stepSyncDir, err)
	}
	return nil
}

// remove removes what goes by an entry's name: also a folder that somebody put there, which would be in
// the way for ever. Links are removed, never followed.
func (l *layer) remove(k Kind, name string) error {
	err := unix.Unlinkat(l.dirs[k], name, 0)
	if err != unix.EISDIR {
		return err
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", l.dirs[k]))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(name)
}

// names lists the entry files of a kind, and the stray temporary ones.
func (l *layer) names(k Kind) (entries, strays []string, err error) {
	for n := range l.adopted[k] {
		entries = append(entries, n)
	}
	dir, ok := l.dirs[k]
	if !ok {
		return entries, nil, nil
	}
	path := filepath.Join(l.path, string(k))
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	list, err := f.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(list)
	for _, n := range list {
		switch {
		case strings.HasPrefix(n, tempPrefix):
			strays = append(strays, n)
		case strings.HasSuffix(n, ".json"):
			entries = append(entries, n)
		}
	}
	return entries, strays, nil
}

// lockWait bounds how long an update waits for another process; a stopped one must not stop us too.
var lockWait = 2 * time.Second

// lock serialises updates of a kind between processes, by an advisory lock on its folder that the
// kernel drops when its holder ends. Where there are no locks, or somebody sits on one, it goes on
// without: entries stay whole, only the last of two updates of one entry would stand.
func (l *layer) lock(k Kind) (unlock func()) {
	fd, err := unix.Openat(l.dirs[k], ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EWOULDBLOCK && err != unix.EINTR || time.Now().After(end) {
			return func() { unix.Close(fd) }
		}
	}
}

func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
