package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// install copies the test binary into dir as a third-party backend.
func install(t testing.TB, dir, name string) string {
	t.Helper()
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, wire.BinaryPrefix+name)
	if err := os.WriteFile(path, exe, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	install(t, dir, "good")
	install(t, dir, "noisy")
	loose := install(t, dir, "env")
	os.Chmod(loose, 0o777)
	os.WriteFile(filepath.Join(dir, wire.BinaryPrefix+"text"), []byte("not a program"), 0o700)
	os.WriteFile(filepath.Join(dir, "README"), nil, 0o600)

	found, err := Discover(t.Context(), dir, "", quick)
	if err != nil || len(found) != 4 {
		t.Fatalf("%d found, %v", len(found), err)
	}
	for _, f := range found {
		want := map[string]string{"noisy": "hello from my init", "env": "writable by group or others", "text": "exec format error"}[f.Source.Name]
		switch {
		case want == "" && (f.Err != nil || f.Manifest.Name != "good" || len(f.Digest) != 64):
			t.Errorf("%+v", f)
		case want != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), want)):
			t.Errorf("%s: %v, want %q", f.Source.Name, f.Err, want)
		}
	}
	if found, err := Discover(t.Context(), filepath.Join(dir, "none"), "", quick); err != nil || found != nil {
		t.Errorf("missing directory: %v, %v", found, err)
	}
}

// The sticky bit makes a directory that all may write safe, and says nothing about a file.
func TestTrust(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "f"), t.TempDir()
	os.WriteFile(file, nil, 0o600)
	for path, modes := range map[string]map[os.FileMode]bool{
		file: {0o755: true, 0o775: false, 0o777 | os.ModeSticky: false},
		dir:  {0o755: true, 0o777: false, 0o777 | os.ModeSticky: true},
	} {
		for mode, want := range modes {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if err := CheckTrust(path); (err == nil) != want {
				t.Errorf("%s with %v: %v", path, mode, err)
			}
		}
	}
}

func TestSuite(t *testing.T) {
	set, err := Suite(t.Context(), features, "amd64", quick, Builtin("good", "d"), Builtin("dies", ""), Builtin("liesisa", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if len(set.Plugins) != 2 || set.Failed["dies"] == nil || set.Digest("good") != "d" {
		t.Fatalf("%+v", set)
	}
	c, err := set.Default(t.Context(), problem)
	if err != nil || c.Backend != "good" {
		t.Errorf("%+v, %v", c, err)
	}
	none, err := Suite(t.Context(), nil, "amd64", quick, Builtin("liesisa", ""))
	if err != nil || len(none.Plugins) != 0 {
		t.Errorf("a backend that requires what the host lacks was kept: %v", err)
	}
}

// triton-ascend#1664: an environment switch that a third-party backend reads is part of the identity
// under which its results and artifacts are kept.
func TestDiscoveredIdentityHoldsTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	install(t, dir, "env")
	digest := func() string {
		found, err := Discover(t.Context(), dir, "", quick)
		if err != nil || len(found) != 1 || found[0].Err != nil {
			t.Fatalf("%+v %v", found, err)
		}
		return found[0].Digest
	}
	plain := digest()
	t.Setenv("FAKE_KNOB", "7")
	if digest() == plain {
		t.Error("a declared variable changed and the identity did not")
	}
}
