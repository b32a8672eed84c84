package host

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// What third-party backends say of themselves is remembered between programs, so that an engine whose
// kernels are all in the cache starts none of them. A memory is of one file in one environment: whoever
// changes the file changes its ctime, unless that is too young to tell, and what a backend says may depend
// on the variables that it declares. It holds no code, and what it says is checked again when the backend
// is started.

// fileID is a file as it was when it was read.
type fileID struct {
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Size   int64  `json:"size"`
	Ctim   int64  `json:"ctim"` // nanoseconds
	Mtim   int64  `json:"mtim"`
	SHA256 string `json:"sha256"` // of its content
}

func idOf(st *syscall.Stat_t, sha256 string) fileID {
	return fileID{uint64(st.Dev), st.Ino, st.Size, st.Ctim.Nano(), st.Mtim.Nano(), sha256}
}

func (e *executable) identity() fileID { return idOf(&e.before, e.sha256) }

// remembered are manifests by the path of the backend.
type remembered map[string]memory

type memory struct {
	File     fileID          `json:"file"`
	Env      []string        `json:"env,omitempty"` // variables that it declares before it sees any
	Digest   string          `json:"digest"`        // identity: of the file and of what Env was
	Manifest kernel.Manifest `json:"manifest"`
}

// settled is how old a file must be when it is read for its times to tell the next change: file systems
// keep them in steps of up to two seconds.
const settled = 2 * time.Second

// settledAt reports whether the file had its times long enough before a moment.
func (f fileID) settledAt(at time.Time) bool {
	return at.Sub(time.Unix(0, max(f.Ctim, f.Mtim))) >= settled
}

// maxMemo bounds the file of memories.
const maxMemo = 4 << 20

// recall reads the memories in a file that nobody else can have written; whatever is wrong with it, it
// holds none.
func recall(file string) remembered {
	r := remembered{}
	if file == "" {
		return r
	}
	err := CheckTrust(filepath.Dir(file))
	if err == nil {
		err = CheckTrust(file)
	}
	var fi os.FileInfo
	if err == nil {
		fi, err = os.Stat(file)
	}
	var b []byte
	if err == nil && fi.Mode().IsRegular() && fi.Size() <= maxMemo {
		b, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			slog.Debug("backends are asked again", "why", err)
		}
		return remembered{}
	}
	return r
}

// find is what is remembered of a backend whose file and environment are what they were.
func (r remembered) find(src Source) (Found, bool) {
	m, ok := r[src.Path]
	if !ok || os.Getenv(wire.EnvReattach) != "" || CheckTrust(filepath.Dir(src.Path)) != nil {
		return Found{}, false
	}
	fi, err := os.Stat(src.Path)
	if err != nil || trusted(src.Path, fi) != nil || idOf(fi.Sys().(*syscall.Stat_t), m.File.SHA256) != m.File || m.Manifest.Name != src.Name {
		return Found{}, false
	}
	if _, digest := declared(m.Env, m.File.SHA256); digest != m.Digest {
		return Found{}, false // it was asked in another environment
	}
	return Found{Source: src, Manifest: m.Manifest, Digest: m.Digest, memory: m}, true
}

// keep writes down what was found, if it is news. Failing to is no failure: they are asked again.
func (r remembered) keep(file string, found []Found) {
	now := remembered{}
	for _, f := range found {
		if f.Err == nil && f.memory.Digest != "" {
			now[f.Source.Path] = f.memory
		}
	}
	same := func(a, b memory) bool { return a.File == b.File && a.Digest == b.Digest }
	if file == "" || maps.EqualFunc(r, now, same) {
		return
	}
	err := CheckTrust(filepath.Dir(file))
	var b []byte
	if err == nil {
		b, err = json.Marshal(now)
	}
	if err == nil {
		err = renameio.WriteFile(file, b, 0o600)
	}
	if err != nil {
		slog.Debug("backends are not remembered", "why", err)
	}
}
