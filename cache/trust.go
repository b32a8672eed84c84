package cache

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrUntrusted is wrapped by every refusal of a place or file that somebody else could have written.
var ErrUntrusted = errors.New("not trusted")

// layer is one directory of entries, held open so that no later rename or link can swap it.
type layer struct {
	path   string
	system bool
	dirs   map[Kind]int // directory descriptors
}

// openLayer opens the folders of a layer, after making those that are missing if create, and checks
// who may write there.
func openLayer(path string, system, create bool) (*layer, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(abs, fmt.Sprintf("v%d", Schema))
	if create {
		if err := os.MkdirAll(root, 0o700); err != nil {
			return nil, err
		}
	}
	l := &layer{path: root, system: system, dirs: map[Kind]int{}}
	for _, p := range []string{abs, root} {
		if err := checkDir(p, system); err != nil {
			return nil, err
		}
	}
	for _, k := range Kinds {
		dir := filepath.Join(root, string(k))
		if create {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				l.close()
				return nil, err
			}
		}
		fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDONLY, 0)
		if err != nil {
			if !create && errors.Is(err, unix.ENOENT) {
				continue
			}
			l.close()
			return nil, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		l.dirs[k] = fd
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil {
			err = l.check(dir, &st, unix.S_IFDIR)
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *layer) close() {
	for _, fd := range l.dirs {
		unix.Close(fd)
	}
	l.dirs = nil
}

func checkDir(path string, system bool) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return (&layer{system: system}).check(path, &st, unix.S_IFDIR)
}

// check enforces the ownership rules: the user layer belongs to the effective user, the system layer
// to root; neither is writable by group or others; types are as expected, so no links.
func (l *layer) check(path string, st *unix.Stat_t, want uint32) error {
	owner := uint32(os.Geteuid())
	if l.system {
		owner = 0
	}
	switch {
	case st.Mode&unix.S_IFMT != want:
		return fmt.Errorf("%w: %s is not a plain directory or file (a link?)", ErrUntrusted, path)
	case st.Uid != owner:
		return fmt.Errorf("%w: %s belongs to uid %d, expected %d", ErrUntrusted, path, st.Uid, owner)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%w: %s is writable by group or others (mode %04o): chmod go-w it", ErrUntrusted, path, st.Mode&0o7777)
	}
	return nil
}

// read returns the bytes of an entry file; a missing one is fs.ErrNotExist.
func (l *layer) read(k Kind, name string) ([]byte, error) {
	dir, ok := l.dirs[k]
	if !ok {
		return nil, os.ErrNotExist
	}
	path := filepath.Join(l.path, string(k), name)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return nil, fmt.Errorf("%w: %s is a link", ErrUntrusted, path)
		}
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := l.check(path, &st, unix.S_IFREG); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return nil, err
	}
	return b, nil
}
