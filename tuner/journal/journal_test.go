package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

type result struct{ N int }

func TestResumeAfterCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j, err := Open(path, "s")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := j.Add("sample", fmt.Sprint(i), result{i}); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(whole); cut++ {
		p := filepath.Join(dir, "cut")
		if err := os.WriteFile(p, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(p, "s")
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		n := j.Resumed()
		for i := range n {
			var r result
			if ok, err := j.Done("sample", fmt.Sprint(i), &r); !ok || err != nil || r.N != i {
				t.Fatalf("cut at %d: record %d: %v %v %v", cut, i, ok, err, r)
			}
		}
		if err := j.Add("sample", "new", result{9}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		j, err = Open(p, "s")
		if err != nil || j.Resumed() != n+1 {
			t.Fatalf("cut at %d: reopened with %d records, want %d (%v)", cut, j.Resumed(), n+1, err)
		}
		if err := j.Finish(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnotherSessionStartsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, err := Open(path, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Add("k", "x", 1); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j, err = Open(path, "b")
	if err != nil || j.Resumed() != 0 {
		t.Fatalf("%v, %d records", err, j.Resumed())
	}
	j.Close()
	if j, err = Open(path, "b"); err != nil || j.Resumed() != 0 { // nothing of the other's is left behind the header
		t.Fatalf("again: %v, %d records", err, j.Resumed())
	}
	j.Close()
}

// What a version before measured had no turns, and is of other orders: it is not resumed.
func TestVersionBeforeStartsAnew(t *testing.T) {
	for v, want := range map[int]int{version - 1: 0, version: 1} {
		path := filepath.Join(t.TempDir(), "j")
		text := fmt.Sprintf("{\"journal\":%d,\"session\":\"s\"}\n{\"kind\":\"duel\",\"key\":\"0\",\"body\":1}\n", v)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(path, "s")
		if err != nil || j.Resumed() != want {
			t.Fatalf("version %d: %v, %d records, want %d", v, err, j.Resumed(), want)
		}
		j.Close()
	}
}

func TestLinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "j")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "j"), "s"); err == nil {
		t.Error("a link was followed")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("{\"journal\":1,\"session\":\"s\"}\n{\"kind\":\"a\",\"key\":\"b\",\"body\":1}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(p, "s")
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
	})
}
