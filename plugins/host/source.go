package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// Source says where a backend comes from.
type Source struct {
	Name     string
	Path     string         // a third-party executable; "" for a built-in, served by re-executing this program
	Digest   string         // identity of a built-in: the digest of its source; a third party's is computed
	Reattach *wire.Reattach // set by Open: a backend started by hand with --debug
}

// Builtin is a backend that this program carries and serves through sdk.MaybeServe. digest identifies
// its source code.
func Builtin(name, digest string) Source { return Source{Name: name, Digest: digest} }

// External is the executable of a third-party backend; its file name gives the backend's name.
func External(path string) (Source, error) {
	name, ok := strings.CutPrefix(filepath.Base(path), wire.BinaryPrefix)
	if !ok || !wire.ValidName(name) {
		return Source{}, fmt.Errorf("%s: a backend's file is named %sNAME, NAME of a-z, 0-9, - and _", path, wire.BinaryPrefix)
	}
	return Source{Name: name, Path: path}, nil
}

// attached finds a backend that was started by hand and named in TILEWRIGHT_REATTACH; nil if there is
// none of that name.
func attached(name string) (*Source, error) {
	v := os.Getenv(wire.EnvReattach)
	if v == "" {
		return nil, nil
	}
	var rs []wire.Reattach
	if err := json.Unmarshal([]byte(v), &rs); err != nil {
		return nil, fmt.Errorf("%s: %w", wire.EnvReattach, err)
	}
	for _, r := range rs {
		if r.Name != name {
			continue
		}
		if start, err := wire.StartTime(r.Pid); err != nil || start != r.Start {
			return nil, fmt.Errorf("%s: backend %q, process %d is gone: start it again with --debug", wire.EnvReattach, r.Name, r.Pid)
		}
		if r.Network != "unix" {
			return nil, fmt.Errorf("%s: backend %q listens on %q, want a Unix socket", wire.EnvReattach, r.Name, r.Network)
		}
		return &Source{Name: r.Name, Digest: fmt.Sprintf("attached-%d-%d", r.Pid, r.Start), Reattach: &r}, nil
	}
	return nil, nil
}

// executable is an open program file: what was hashed is what runs.
type executable struct {
	file   *os.File
	sha256 string
	before syscall.Stat_t
}

// openExecutable opens and hashes a third-party backend. It refuses files and directories that
// others could have written, since a backend is code.
func openExecutable(path string) (*executable, error) {
	if err := CheckTrust(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := CheckTrust(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	e := &executable{file: f}
	fi, err := f.Stat()
	if err == nil {
		e.before = *fi.Sys().(*syscall.Stat_t)
		err = trusted(path, fi)
	}
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	h := sha256.New()
	if err == nil {
		_, err = io.Copy(h, f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	e.sha256 = hex.EncodeToString(h.Sum(nil))
	return e, nil
}

// unchanged reports whether the file is still what was hashed. The kernel refuses writes to a file
// that is being executed, so asking once after exec covers the time before it.
func (e *executable) unchanged() error {
	fi, err := e.file.Stat()
	if err != nil {
		return err
	}
	now := fi.Sys().(*syscall.Stat_t)
	if now.Size != e.before.Size || now.Ctim != e.before.Ctim || now.Mtim != e.before.Mtim {
		return fmt.Errorf("%s changed while it was being started: try again", e.file.Name())
	}
	return nil
}

// CheckTrust refuses a path that is owned by neither root nor this user, or that group or others
// may write; in a sticky directory they cannot touch what is not theirs.
func CheckTrust(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	return trusted(path, fi)
}

func trusted(path string, fi os.FileInfo) error {
	st := fi.Sys().(*syscall.Stat_t)
	if owners := []uint32{0, uint32(os.Geteuid())}; !slices.Contains(owners, st.Uid) {
		return fmt.Errorf("%s belongs to uid %d: backends are code, they must belong to you or to root", path, st.Uid)
	}
	if fi.Mode().Perm()&0o022 != 0 && fi.Mode()&(os.ModeDir|os.ModeSticky) != os.ModeDir|os.ModeSticky {
		return fmt.Errorf("%s is writable by group or others (%04o): run chmod go-w on it", path, fi.Mode().Perm())
	}
	return nil
}
