package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s := Open(Options{Dir: dir})
	t.Cleanup(s.Close)
	return s
}

func tempStore(t *testing.T) (*Store, string) {
	dir := filepath.Join(t.TempDir(), "tilewright")
	s := open(t, dir)
	if w := s.Warning(); w != "" {
		t.Fatal(w)
	}
	return s, dir
}

func testDecision() Decision {
	return Decision{Key: testDecisionKey(), Arm: kernel.Arm{Knobs: kernel.Knobs{ThreadsDecode: 2, ThreadsPrefill: 2, RepackRows: 2048, PanelMinM: 129, PrefillChunk: 512, SpinMicros: 50, HugePages: true, KV: kernel.ElemF16}}, Evidence: []Evidence{{Phase: "decode", Ratio: 1.1}}}
}

func testArtifact() *kernel.Artifact {
	return &kernel.Artifact{Key: testArtifactKey(), Kind: kernel.KindCode, Code: []byte{0xc3}, Entries: map[string]int{"main": 0}}
}

func testRequest() Request {
	k := testArtifactKey()
	return Request{Problem: k.Problem, Config: k.Config, LayoutVersion: k.LayoutVersion, Backend: k.Backend, Host: host}
}

var host = kernel.NewFeatures("avx2", "fma", "f16c")

func entryFile(dir string, k Kind, digest string) string {
	return filepath.Join(dir, fmt.Sprintf("v%d", Schema), string(k), fileName(digest))
}

func TestRoundTrip(t *testing.T) {
	s, dir := tempStore(t)
	d := testDecision()
	if err := s.PutDecision(d); err != nil {
		t.Fatal(err)
	}
	if err := s.PutArtifact(testRequest(), testArtifact(), "tuned"); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	got, look := s.Decision(testDecisionKey())
	if look.Status != Exact || got.Evidence[0].Ratio != 1.1 {
		t.Fatalf("%+v %+v", look, got)
	}
	a, err := s.Artifact(testRequest())
	if err != nil || !bytes.Equal(a.Code, []byte{0xc3}) {
		t.Fatalf("%v %v", a, err)
	}
	fi, _ := os.Stat(entryFile(dir, KindDecision, kernel.KeyDigest(d.Key)))
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
}

func TestSoftChangeIsAHintAndHardChangeAMiss(t *testing.T) {
	s, _ := tempStore(t)
	if err := s.PutDecision(testDecision()); err != nil {
		t.Fatal(err)
	}
	soft := testDecisionKey()
	soft.Host.Microcode = "new"
	if _, look := s.Decision(soft); look.Status != Revalidate || !strings.Contains(look.Why, "Microcode") {
		t.Errorf("soft: %+v", look)
	}
	hard := testDecisionKey()
	hard.Host.Features = kernel.NewFeatures("avx2")
	if _, look := s.Decision(hard); look.Status != Miss {
		t.Errorf("hard: %+v", look)
	}
}

// vllm#41871, triton#1242: an artifact asked for under another arm's key, or for a weaker CPU.
func TestArtifactOfAnotherArmIsRefused(t *testing.T) {
	s, dir := tempStore(t)
	if err := s.PutArtifact(testRequest(), testArtifact(), "tuned"); err != nil {
		t.Fatal(err)
	}
	other := testRequest()
	other.Config = kernel.Config{"mr": 1, "prefetch": 1024}
	// Put the entry where the other key looks: a copied or renamed file.
	b, err := os.ReadFile(entryFile(dir, KindArtifact, kernel.KeyDigest(testRequest())))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(entryFile(dir, KindArtifact, kernel.KeyDigest(other)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Artifact(other); !errors.Is(err, kernel.ErrArtifact) || !strings.Contains(err.Error(), "prefetch") {
		t.Errorf("got %v", err)
	}
	wrong := ArtifactRecord{Request: testRequest(), Artifact: *testArtifact(), Origin: "tuned", Digest: "of other code"}
	if err := s.put(KindArtifact, kernel.KeyDigest(testRequest()), wrong); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Artifact(testRequest()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("code without the digest it was stored with: %v", err)
	}
	weaker := testRequest()
	weaker.Host = kernel.NewFeatures("sse2")
	if _, err := s.Artifact(weaker); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("weaker CPU: %v", err)
	}
	needy := testArtifact()
	needy.Key.ISA = []string{"avx512f"}
	if err := s.PutArtifact(testRequest(), needy, "tuned"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Artifact(testRequest()); !errors.Is(err, kernel.ErrArtifact) || !strings.Contains(err.Error(), "avx512f") {
		t.Errorf("code for another CPU: %v", err)
	}
}

// flashinfer#3970: torn, truncated and altered entries are misses that heal.
func TestAlteredEntriesAreMissesThatHeal(t *testing.T) {
	s, dir := tempStore(t)
	d := testDecision()
	if err := s.PutDecision(d); err != nil {
		t.Fatal(err)
	}
	path := entryFile(dir, KindDecision, kernel.KeyDigest(d.Key))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, look := s.Decision(d.Key); look.Status != Miss {
			t.Errorf("%s: %+v", name, look)
		}
		if bad, _, err := s.Verify(false); err != nil || len(bad) != 1 {
			t.Errorf("%s: verify found %v, %v", name, bad, err)
		}
		if err := s.PutDecision(d); err != nil {
			t.Fatal(err)
		}
		if _, look := s.Decision(d.Key); look.Status != Exact {
			t.Errorf("%s: did not heal: %+v", name, look)
		}
	}
	for n := 0; n < len(good); n += 37 {
		check(fmt.Sprintf("truncated to %d", n), good[:n])
	}
	for i := 0; i < len(good); i += 53 {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		check(fmt.Sprintf("bit of byte %d", i), b)
	}
	check("newer schema", bytes.Replace(good, []byte("tilewright 1 "), []byte("tilewright 99 "), 1))
}

func TestSystemLayer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a system layer belongs to root")
	}
	sys, sysDir := tempStore(t)
	if err := sys.PutDecision(testDecision()); err != nil {
		t.Fatal(err)
	}
	user := filepath.Join(t.TempDir(), "u")
	s := Open(Options{Dir: user, SystemDir: sysDir})
	defer s.Close()
	if _, look := s.Decision(testDecisionKey()); look.Status != Exact || look.Layer != "system" {
		t.Fatalf("%+v", look)
	}
	mine := testDecision()
	mine.Evidence[0].Ratio = 3
	if err := s.PutDecision(mine); err != nil {
		t.Fatal(err)
	}
	if d, look := s.Decision(testDecisionKey()); look.Layer != "user" || d.Evidence[0].Ratio != 3 {
		t.Errorf("user must win: %+v", look)
	}
}

// A mark asks for another look and leaves the decision in place; it does not undo a newer decision.
func TestRevalidateMark(t *testing.T) {
	s, _ := tempStore(t)
	if err := s.PutDecision(testDecision()); err != nil {
		t.Fatal(err)
	}
	ran, _ := s.Decision(testDecisionKey())
	newer := testDecision()
	newer.Created = ran.Created.Add(time.Second)
	newer.Evidence[0].Ratio = 2
	if err := s.PutDecision(newer); err != nil {
		t.Fatal(err)
	}
	if err := s.Revalidate(ran, "slower than recorded"); err != nil {
		t.Fatal(err)
	}
	d, look := s.Decision(testDecisionKey())
	if look.Status != Exact || d.Evidence[0].Ratio != 2 {
		t.Errorf("a mark of an older decision hit a newer one: %+v", look)
	}
	if err := s.Revalidate(d, "slower than recorded"); err != nil {
		t.Fatal(err)
	}
	d, look = s.Decision(testDecisionKey())
	if look.Status != Revalidate || !look.Fits(d) || !strings.Contains(look.Why, "slower than recorded") {
		t.Errorf("%+v", look)
	}
	if ex, err := s.Explain(testDecisionKey()); err != nil || ex[0].Lookup.Status != Revalidate {
		t.Errorf("explain says otherwise: %+v %v", ex, err)
	}
}

func TestReadOnlyMakesNoFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	s := Open(Options{Dir: dir, ReadOnly: true})
	defer s.Close()
	if list, err := s.List(); err != nil || len(list) != 0 || s.Warning() != "" {
		t.Errorf("%v %v %q", list, err, s.Warning())
	}
	if err := s.PutDecision(testDecision()); err != nil {
		t.Error(err)
	}
	if _, look := s.Decision(testDecisionKey()); look.Status != Exact || look.Layer != "memory" {
		t.Errorf("%+v", look)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s was made: %v", dir, err)
	}
}

// A folder of entries that others may write is refused, like the folders above it.
func TestWritableKindFolderIsRefused(t *testing.T) {
	s, dir := tempStore(t)
	if err := s.PutArtifact(testRequest(), testArtifact(), "tuned"); err != nil {
		t.Fatal(err)
	}
	chmod(t, filepath.Dir(entryFile(dir, KindArtifact, "x")), 0o777)
	if s := open(t, dir); s.Warning() == "" {
		t.Error("a world-writable folder of artifacts was used")
	}
}

// What was kept in memory while the disk was full does not hide what is written later.
func TestMemoryDoesNotHideTheDisk(t *testing.T) {
	s, _ := tempStore(t)
	d := testDecision()
	failpoint = func(writeStep) error { return syscall.ENOSPC }
	err := s.PutDecision(d)
	failpoint = nil
	if err != nil {
		t.Fatal(err)
	}
	d.Evidence[0].Ratio = 2
	if err := s.PutDecision(d); err != nil {
		t.Fatal(err)
	}
	if d, look := s.Decision(d.Key); look.Layer != "user" || d.Evidence[0].Ratio != 2 {
		t.Errorf("%+v", look)
	}
}

// flashinfer#3970: fields that this version does not know block nothing.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	s, dir := tempStore(t)
	b, err := seal(struct {
		Decision
		Later string `json:"later"`
	}{testDecision(), "metadata"})
	if err != nil {
		t.Fatal(err)
	}
	touchWith(t, entryFile(dir, KindDecision, kernel.KeyDigest(testDecisionKey())), b)
	if _, look := s.Decision(testDecisionKey()); look.Status != Exact {
		t.Errorf("%+v", look)
	}
}
