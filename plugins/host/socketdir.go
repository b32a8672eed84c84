package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// socketDir makes the private directory of one process of a host (a pid), short enough for a socket in it: a Unix
// address holds 107 bytes and go-plugin appends /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
func socketDir(host int) (string, error) {
	const room = 107 - len("/tw-0123456789/plugin-dir0123456789/plugin0123456789")
	start, err := wire.StartTime(host)
	if err != nil {
		return "", fmt.Errorf("no directory for a backend's socket: it is marked with the start time of process %d, which cannot be read; mount /proc: %w", host, err)
	}
	owner := fmt.Appendf(nil, "%d %d\n", host, start)
	var errs []error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if base == "" || !filepath.IsAbs(base) || len(base) > room {
			continue
		}
		dir, err := os.MkdirTemp(base, "tw-")
		if err == nil {
			err = sign(dir, owner)
		}
		if err == nil {
			sweep(base, time.Now().Add(-time.Hour))
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no directory for a backend's socket: set TMPDIR to a writable path under %d bytes: %w", room, errors.Join(errs...))
}

// ownerFile is what makes a directory of sockets ours beyond doubt: it names the host that made it, by
// pid and start time.
const ownerFile = ".tilewright-backend-socket"

// sign writes the owner file.
func sign(dir string, owner []byte) error {
	err := os.WriteFile(filepath.Join(dir, ownerFile), owner, 0o600)
	if err != nil {
		os.RemoveAll(dir)
	}
	return err
}

// orphaned reports whether a directory carries the owner file of a host that is gone.
func orphaned(dir string) bool {
	path := filepath.Join(dir, ownerFile)
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || !mine(fi) {
		return false
	}
	b, err := os.ReadFile(path)
	var pid int
	var start uint64
	if n, _ := fmt.Sscanf(string(b), "%d %d\n", &pid, &start); err != nil || n != 2 {
		return false
	}
	now, err := wire.StartTime(pid)
	return err != nil || now != start // a reused pid is another host
}

func mine(fi fs.FileInfo) bool { return fi.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) }

var socketDirRE = regexp.MustCompile(`^tw-[0-9]+$`)

// sweep removes directories of sockets of this user that hosts left which were killed while a backend was
// starting: those that carry the owner file of a host that is gone and hold nothing else. A host in another
// namespace of pids looks gone: only what is from before a moment is removed, long after which a start is over.
func sweep(base string, before time.Time) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	ours := func(e os.DirEntry) bool { return e.Name() == ownerFile || strings.HasPrefix(e.Name(), "plugin") }
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || !fi.IsDir() || !socketDirRE.MatchString(e.Name()) || fi.ModTime().After(before) || !mine(fi) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		inside, err := os.ReadDir(dir)
		if err == nil && orphaned(dir) && !slices.ContainsFunc(inside, func(e os.DirEntry) bool { return !ours(e) }) {
			os.RemoveAll(dir)
		}
	}
}
