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

// access says what may be done with a layer.
type access int

const (
	readWrite  access = iota
	readOnly          // of the user, nothing is written, not even folders
	systemWide        // read-only, of root
)

// layer is one directory of entries, held open so that no later rename or link can swap it.
type layer struct {
	path   string
	access access
	dirs   map[Kind]int // directory descriptors; none for folders that are not there
	// adopted are entries of an older schema, migrated, that could not be written.
	adopted map[Kind]map[string][]byte
}

func versionDir(schema int) string { return fmt.Sprintf("v%d", schema) }

// openLayer opens (if it may write: makes) the folders of a layer and checks who may write there.
// Entries of an older schema are migrated first. Without folders it is fs.ErrNotExist.
func openLayer(path string, a access) (*layer, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if a == readWrite {
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return nil, err
		}
	}
	top := &layer{path: abs, access: a}
	base, err := top.openDir(unix.AT_FDCWD, abs, abs, false)
	if err != nil {
		return nil, err
	}
	defer unix.Close(base)
	adopted, err := adopt(base, abs, a)
	if err != nil {
		return nil, err
	}
	l, err := openVersion(base, abs, Schema, a)
	if errors.Is(err, os.ErrNotExist) && adopted != nil {
		l, err = &layer{path: filepath.Join(abs, versionDir(Schema)), access: a}, nil
	}
	if err == nil {
		l.adopted = adopted
	}
	return l, err
}

// openVersion opens the folders of one schema.
func openVersion(base int, abs string, schema int, a access) (*layer, error) {
	l := &layer{path: filepath.Join(abs, versionDir(schema)), access: a, dirs: map[Kind]int{}}
	root, err := l.openDir(base, versionDir(schema), l.path, a == readWrite)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	for _, k := range Kinds {
		fd, err := l.openDir(root, string(k), filepath.Join(l.path, string(k)), a == readWrite)
		switch {
		case err == nil:
			l.dirs[k] = fd
		case a == readWrite || !errors.Is(err, os.ErrNotExist):
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// openDir opens a folder below another without following a link, and checks it; with create it is
// made if it is missing.
func (l *layer) openDir(at int, name, path string, create bool) (int, error) {
	if create {
		if err := unix.Mkdirat(at, name, 0o700); err != nil && err != unix.EEXIST {
			return -1, &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
	}
	fd, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDONLY, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, fmt.Errorf("%w: %s is not a plain directory (a link?)", ErrUntrusted, path)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = l.check(path, &st, unix.S_IFDIR)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (l *layer) close() {
	for _, fd := range l.dirs {
		unix.Close(fd)
	}
	l.dirs = nil
}

// check enforces the ownership rules: the user layer belongs to the effective user, the system layer
// to root; neither is writable by group or others; types are as expected, so no links.
func (l *layer) check(path string, st *unix.Stat_t, want uint32) error {
	owner := uint32(os.Geteuid())
	if l.access == systemWide {
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
	if b, ok := l.adopted[k][name]; ok {
		return b, nil
	}
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
