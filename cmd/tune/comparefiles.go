package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// files are those that a command names, its executable among them, and what identifies each.
type files map[string]string

// hashes remembers identities: arms share executables and models.
type hashes map[string]string

// hashed is the size up to which a file's contents identify it: scripts and executables, but not
// models, of which the size and the time of the last change must do.
const hashed = 256 << 20

// filesOf are the executable and the plain files among the arguments: of `sh run.sh` or
// `--model=F` it is the argument that makes the arm.
func (hs hashes) filesOf(path string, args []string) (files, error) {
	id, err := hs.identity(path)
	if err != nil {
		return nil, err
	}
	out := files{path: id}
	for _, a := range args {
		if _, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "-") {
			a = value
		}
		if fi, err := os.Stat(a); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		if out[a], err = hs.identity(a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// identity is the sha256 of a file, or what must do for one that is large or may be run and not read.
func (hs hashes) identity(path string) (string, error) {
	if id, ok := hs[path]; ok {
		return id, nil
	}
	fi, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	id := stamp(fi)
	if fi.Size() <= hashed {
		if sum, err := sum(path); err == nil {
			id = sum
		} else if !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
	}
	hs[path] = id
	return id, nil
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// stamp tells one state of a file from another without reading it.
func stamp(fi fs.FileInfo) string {
	return fmt.Sprintf("%d bytes of %s", fi.Size(), fi.ModTime().UTC().Format(time.RFC3339Nano))
}

// stamps are those of the files that are there.
func (used files) stamps() map[string]string {
	out := map[string]string{}
	for path := range used {
		if fi, err := os.Stat(path); err == nil {
			out[path] = stamp(fi)
		}
	}
	return out
}

// changed are the files that are no longer what they were.
func (used files) changed(now hashes) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(used)) {
		if id, err := now.identity(path); err != nil || id != used[path] {
			out = append(out, path)
		}
	}
	return out
}
