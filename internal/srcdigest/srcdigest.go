// Package srcdigest names the source that a binary was built from, folder by folder, so that `tune`
// and `engine`, which are different executables, agree on the identity of built-in code.
package srcdigest

//go:generate go run ./gen

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// Backend is the digest of everything that decides what a built-in backend emits.
func Backend(name string) string {
	return combine("kernel", "plugins/x86", "plugins/"+name)
}

// Engine is the digest of the engine and the kernel contract.
func Engine() string { return combine("kernel", "engine") }

func combine(folders ...string) string {
	h := sha256.New()
	for _, f := range folders {
		fmt.Fprintf(h, "%s=%s\n", f, digests[f])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Folders are the folders that have a digest.
var Folders = []string{"kernel", "engine", "plugins/x86", "plugins/avx512", "plugins/avxvnni", "plugins/avx2", "plugins/generic"}

// Sum is the sha256, in hex, of the names and contents of the Go and assembly files below folder,
// tests and testdata apart.
func Sum(fsys fs.FS, folder string) (string, error) {
	var files []string
	err := fs.WalkDir(fsys, folder, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		if ext := path.Ext(p); ext == ".go" || ext == ".s" {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", folder, err)
	}
	sort.Strings(files)
	h := sha256.New()
	for _, f := range files {
		b, err := fs.ReadFile(fsys, f)
		if err != nil {
			return "", fmt.Errorf("digest of %s: %w", folder, err)
		}
		fmt.Fprintf(h, "%s %d\n", f, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
