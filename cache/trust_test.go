package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// flashinfer#3970: a folder where an entry should be is a miss that heals, and gc and verify get past it.
func TestFolderInPlaceOfAnEntry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	s := Open(Options{Dir: dir})
	defer s.Close()
	d := testDecision()
	if err := s.PutDecision(d); err != nil {
		t.Fatal(err)
	}
	entry := filepath.Join(dir, versionDir(Schema), string(KindDecision), fileName(kernel.KeyDigest(d.Key)))
	outside := filepath.Join(t.TempDir(), "outside")
	obstruct := func() {
		t.Helper()
		os.WriteFile(outside, nil, 0o600)
		if err := errors.Join(os.RemoveAll(entry), os.MkdirAll(filepath.Join(entry, "sub"), 0o700), os.Symlink(outside, filepath.Join(entry, "link"))); err != nil {
			t.Fatal(err)
		}
	}
	obstruct()
	if _, look := s.Decision(d.Key); look.Status != Miss {
		t.Errorf("found %+v", look)
	}
	if err := s.PutDecision(d); err != nil {
		t.Errorf("it is in the way: %v", err)
	}
	if _, look := s.Decision(d.Key); look.Status != Exact {
		t.Errorf("not healed: %+v", look)
	}
	obstruct()
	if bad, _, err := s.Verify(true); err != nil || len(bad) != 1 {
		t.Errorf("verify: %v, %v", bad, err)
	}
	obstruct()
	if gone, err := s.GC(time.Nanosecond, 0); err != nil || len(gone) != 1 {
		t.Errorf("gc: %v, %v", gone, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}
