package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// triton#518: places that cannot be used fall back to memory with one warning.
func TestUnusablePlacesFallBackToMemory(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T) string{
		"no home":         func(*testing.T) string { return "" },
		"a file":          func(t *testing.T) string { p := filepath.Join(t.TempDir(), "f"); touch(t, p); return p },
		"below a file":    func(t *testing.T) string { p := filepath.Join(t.TempDir(), "f"); touch(t, p); return p + "/x" },
		"group writable":  func(t *testing.T) string { d := t.TempDir(); chmod(t, d, 0o770); return d },
		"world writable":  func(t *testing.T) string { d := t.TempDir(); chmod(t, d, 0o777); return d },
		"foreign owner":   foreignDir,
		"link":            linkDir,
		"link in it":      linkedKind,
		"unwritable root": func(t *testing.T) string { return "/proc/tilewright" },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, prepare(t))
			if s.Warning() == "" || s.Dir() != "" {
				t.Fatalf("warning %q, dir %q", s.Warning(), s.Dir())
			}
			if err := s.PutDecision(testDecision()); err != nil {
				t.Fatal(err)
			}
			if _, look := s.Decision(testDecisionKey()); look.Status != Exact || look.Layer != "memory" {
				t.Errorf("%+v", look)
			}
		})
	}
}

func touch(t *testing.T, p string) {
	if err := os.WriteFile(p, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, p string, m fs.FileMode) {
	if err := os.Chmod(p, m); err != nil {
		t.Fatal(err)
	}
}

func foreignDir(t *testing.T) string {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a folder of another owner")
	}
	d := t.TempDir()
	if err := os.Chown(d, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	return d
}

func linkDir(t *testing.T) string {
	d := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(d, "link")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(d, "link")
}

func linkedKind(t *testing.T) string {
	d := t.TempDir()
	chmod(t, d, 0o700)
	if err := os.Mkdir(filepath.Join(d, fmt.Sprintf("v%d", Schema)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(d, fmt.Sprintf("v%d", Schema), string(KindArtifact))); err != nil {
		t.Fatal(err)
	}
	return d
}

// pytensor#2208, pytorch#195610: artifacts are code; a file that others could write is not loaded.
func TestUntrustedFilesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"group writable": func(t *testing.T, p string) { chmod(t, p, 0o620) },
		"world writable": func(t *testing.T, p string) { chmod(t, p, 0o602) },
		"a link out": func(t *testing.T, p string) {
			out := filepath.Join(t.TempDir(), "out")
			if err := os.Rename(p, out); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(out, p); err != nil {
				t.Fatal(err)
			}
		},
		"a pipe": func(t *testing.T, p string) {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(p, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := tempStore(t)
			if err := s.PutArtifact(testRequest(), testArtifact(), "tuned"); err != nil {
				t.Fatal(err)
			}
			spoil(t, entryFile(dir, KindArtifact, kernel.KeyDigest(testRequest())))
			if _, err := s.Artifact(testRequest()); !errors.Is(err, ErrUntrusted) {
				t.Errorf("got %v", err)
			}
		})
	}
}
