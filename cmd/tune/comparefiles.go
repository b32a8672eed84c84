package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// files are those that a command names, its executable among them, and what identifies each.
type files map[string]string

// hashed is the size up to which a file's contents identify it: scripts and executables, but not
// models, of which the size and the time of the last change must do.
const hashed = 256 << 20

// filesOf are the executable and the plain files among the arguments: of `sh run.sh` or
// `--model=F` it is the argument that makes the arm.
func filesOf(path string, args []string) (files, error) {
	id, err := identity(path)
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
		if out[a], err = identity(a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// identity is the sha256 of a file, or what must do for a large one.
func identity(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fi.Size() > hashed {
		return fmt.Sprintf("%d bytes of %s", fi.Size(), fi.ModTime().UTC().Format(time.RFC3339Nano)), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// changed is a file that is no longer what it was, "" for none.
func (fs files) changed() string {
	for _, path := range slices.Sorted(maps.Keys(fs)) {
		if id, err := identity(path); err != nil || id != fs[path] {
			return path
		}
	}
	return ""
}
