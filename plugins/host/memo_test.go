package host

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A backend is not started again for what it said before, unless its file, or anything that others could
// have tampered with, is not what it was.
func TestBackendsAreRemembered(t *testing.T) {
	dir, memo := t.TempDir(), filepath.Join(t.TempDir(), "backends.json")
	os.Chmod(dir, 0o700)
	path := install(t, dir, "env")
	t.Setenv("FAKE_KNOB", "asked")
	later := quick
	later.now = func() time.Time { return time.Now().Add(settled) }
	discover := func() Found {
		t.Helper()
		found, err := Discover(t.Context(), dir, memo, later)
		if err != nil || len(found) != 1 || found[0].Err != nil {
			t.Fatalf("%+v, %v", found, err)
		}
		return found[0]
	}
	first := discover()
	b, err := os.ReadFile(memo)
	if err != nil || first.Manifest.Version != "asked/" {
		t.Fatal(first, err)
	}
	plant := func() { // what is remembered can be told from what is said
		t.Helper()
		if err := os.WriteFile(memo, bytes.ReplaceAll(b, []byte(`"asked/"`), []byte(`"known"`)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plant()
	if f := discover(); f.Manifest.Version != "known" || f.Digest != first.Digest || f.Source != first.Source {
		t.Errorf("not remembered: %+v", f)
	}
	t.Setenv("FAKE_KNOB", "changed")
	if f := discover(); f.Manifest.Version != "changed/" || f.Digest == first.Digest {
		t.Errorf("what it said in another environment was believed: %+v", f)
	}
	t.Setenv("FAKE_KNOB", "asked")
	if f := discover(); f.Manifest.Version != "asked/" || f.Digest != first.Digest {
		t.Errorf("the memory of another environment was believed: %+v", f)
	}
	for name, spoil := range map[string]func(){
		"others may write the memo": func() { os.Chmod(memo, 0o666) },
		"its folder":                func() { os.Chmod(filepath.Dir(memo), 0o777) },
		"torn":                      func() { os.Truncate(memo, 10) },
		"touched":                   func() { os.Chtimes(path, time.Now(), time.Now()) },
		"replaced":                  func() { os.Remove(path); install(t, dir, "env") },
	} {
		discover()
		os.Chmod(filepath.Dir(memo), 0o700)
		os.Remove(memo)
		discover()
		if b, err = os.ReadFile(memo); err != nil {
			t.Fatal(err)
		}
		plant()
		spoil()
		if f := discover(); f.Manifest.Version != "asked/" {
			t.Errorf("%s: it was believed", name)
		}
		os.Chmod(filepath.Dir(memo), 0o700)
	}
	os.Chmod(path, 0o777)
	if found, err := Discover(t.Context(), dir, memo, later); err != nil || found[0].Err == nil {
		t.Errorf("remembered what is not trusted: %+v, %v", found, err)
	}
}

// A file that was changed a moment ago may change again within the same tick of its times: what is said of
// it is not remembered.
func TestYoungFilesAreNotRemembered(t *testing.T) {
	dir, memo := t.TempDir(), filepath.Join(t.TempDir(), "backends.json")
	os.Chmod(dir, 0o700)
	path := install(t, dir, "good")
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := time.Unix(0, idOf(fi.Sys().(*syscall.Stat_t), "").Ctim)
	for age, want := range map[time.Duration]int{settled - 1: 0, settled: 1, -time.Hour: 0} {
		os.Remove(memo)
		o := quick
		o.now = func() time.Time { return changed.Add(age) }
		if found, err := Discover(t.Context(), dir, memo, o); err != nil || len(found) != 1 || found[0].Err != nil {
			t.Fatal(found, err)
		}
		if n := len(recall(memo)); n != want {
			t.Errorf("a file %v old left %d memories, want %d", age, n, want)
		}
	}
}
