package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// fakeSchema0 is a made-up older schema: CPUs were called cpu_count, and nothing was pinned.
func fakeSchema0(t testing.TB) {
	migrations[0] = func(k Kind, rec map[string]any) error {
		key, ok := rec["key"].(map[string]any)
		if !ok {
			return errors.New("no key")
		}
		key["cpus"] = key["cpu_count"]
		delete(key, "cpu_count")
		return nil
	}
	t.Cleanup(func() { delete(migrations, 0) })
}

// sealed0 writes a record as schema 0 did.
func sealed0(t *testing.T, v any) []byte {
	var rec map[string]any
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err != nil {
		t.Fatal(err)
	}
	key := rec["key"].(map[string]any)
	key["cpu_count"], key["schema"] = key["cpus"], 0
	delete(key, "cpus")
	body, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "tilewright 0 %s %d\n", hex.EncodeToString(sum[:]), len(body)), body...)
}

// oldStore is a store that schema 0 left: a decision, a rule, and a torn entry.
func oldStore(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "c")
	for k, b := range map[Kind][]byte{KindDecision: sealed0(t, testDecision()), KindRule: sealed0(t, Rule{Key: testRuleKey()}), KindArtifact: nil} {
		if err := os.MkdirAll(filepath.Join(dir, "v0", string(k)), 0o700); err != nil {
			t.Fatal(err)
		}
		if b != nil {
			touchWith(t, filepath.Join(dir, "v0", string(k), "0123.json"), b)
			touchWith(t, filepath.Join(dir, "v0", string(k), "torn.json"), b[:40])
		}
	}
	return dir
}

func touchWith(t *testing.T, p string, b []byte) {
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkAdopted(t *testing.T, s *Store) {
	t.Helper()
	if d, look := s.Decision(testDecisionKey()); look.Status != Exact || d.Evidence[0].Ratio != 1.1 {
		t.Errorf("decision: %+v", look)
	}
	if _, look := s.Rule(testRuleKey()); look.Status != Exact {
		t.Errorf("rule: %+v", look)
	}
	if list, err := s.List(); err != nil || len(list) != 2 {
		t.Errorf("list: %v %v", list, err)
	}
}

// kernel_tuner#194: entries of an older schema are migrated, once, and the old ones stay.
func TestOlderSchemaIsMigrated(t *testing.T) {
	fakeSchema0(t)
	dir := oldStore(t)
	s := open(t, dir)
	if s.Warning() != "" {
		t.Fatal(s.Warning())
	}
	checkAdopted(t, s)
	if _, err := os.Stat(entryFile(dir, KindDecision, kernel.KeyDigest(testDecisionKey()))); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "v0", "decisions", "0123.json")); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	checkAdopted(t, open(t, dir))
}

// kernel_tuner#194, for who may not write: migrated entries are read, nothing is changed.
func TestOlderSchemaIsReadable(t *testing.T) {
	fakeSchema0(t)
	dir := oldStore(t)
	s := Open(Options{Dir: dir, ReadOnly: true})
	defer s.Close()
	checkAdopted(t, s)
	failpoint = func(writeStep) error { return syscall.EROFS }
	defer func() { failpoint = nil }()
	full := open(t, dir)
	if full.Warning() == "" || full.Dir() != "" {
		t.Errorf("warning %q, dir %q", full.Warning(), full.Dir())
	}
	checkAdopted(t, full)
	if _, err := os.Stat(filepath.Join(dir, versionDir(Schema))); !os.IsNotExist(err) {
		t.Errorf("a folder was made: %v", err)
	}
}

// A crash in the middle of a migration leaves it to be done again, whole.
func TestKilledMigrationIsDoneAgain(t *testing.T) {
	fakeSchema0(t)
	dir := oldStore(t)
	writes := 0
	failpoint = func(at writeStep) error {
		if at == stepCreate {
			writes++
		}
		if writes == 2 {
			return errCrash
		}
		return nil
	}
	open(t, dir)
	failpoint = nil
	checkAdopted(t, open(t, dir))
}

func TestSchemasThatCannotBeRead(t *testing.T) {
	d := testDecision()
	if err := unseal(sealed0(t, d), &d); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a schema without a migration: %v", err)
	}
}
