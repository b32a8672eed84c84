package cache

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// vllm#52413, triton#11319: killed or failing at each write step, old or new is found, never a mix.
func TestCrashAtEachWriteStep(t *testing.T) {
	for _, cause := range []error{errCrash, syscall.ENOSPC, syscall.EIO} {
		for _, step := range writeSteps {
			t.Run(fmt.Sprintf("%v at %s", cause, step), func(t *testing.T) {
				s, dir := tempStore(t)
				old := testDecision()
				if err := s.PutDecision(old); err != nil {
					t.Fatal(err)
				}
				failpoint = func(at writeStep) error {
					if at == step {
						return cause
					}
					return nil
				}
				defer func() { failpoint = nil }()
				next := testDecision()
				next.Evidence[0].Ratio = 2
				if err := s.PutDecision(next); err != nil {
					t.Fatalf("a failed write must fall back to memory: %v", err)
				}
				if s.Warning() == "" {
					t.Error("no warning")
				}
				if d, look := s.Decision(old.Key); look.Status != Exact || d.Evidence[0].Ratio != 2 {
					t.Errorf("this process must see what it wrote: %+v", look)
				}
				failpoint = nil
				s2 := open(t, dir)
				d, look := s2.Decision(old.Key)
				if look.Status != Exact || d.Evidence[0].Ratio != 1.1 && d.Evidence[0].Ratio != 2 {
					t.Fatalf("after restart: %+v %+v", look, d.Evidence)
				}
				if err := s2.PutDecision(next); err != nil {
					t.Fatal(err)
				}
				if d, _ := s2.Decision(old.Key); d.Evidence[0].Ratio != 2 {
					t.Error("the next write did not heal")
				}
			})
		}
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

// sglang#20373, triton#2688: concurrent writers, in goroutines and in processes, lose nothing.
func TestConcurrentWritersLoseNothing(t *testing.T) {
	_, dir := tempStore(t)
	var wg sync.WaitGroup
	const writers, each = 16, 20
	for w := range writers {
		wg.Go(func() {
			s := Open(Options{Dir: dir})
			defer s.Close()
			for i := range each {
				d := testDecision()
				d.Key.CPUs = w*each + i
				if err := s.PutDecision(d); err != nil {
					t.Error(err)
				}
				shared := testDecision()
				shared.Evidence[0].Ratio = float64(w)
				if err := s.PutDecision(shared); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, dir)
	for i := range writers * each {
		k := testDecisionKey()
		k.CPUs = i
		if _, look := s.Decision(k); look.Status != Exact {
			t.Fatalf("entry %d: %+v", i, look)
		}
	}
	if bad, _, err := s.Verify(false); err != nil || len(bad) > 0 {
		t.Errorf("verify: %v %v", bad, err)
	}
}

func TestKilledWriterLeavesAWholeStore(t *testing.T) {
	if dir := os.Getenv("CACHE_TEST_WRITE_FOREVER"); dir != "" {
		s := Open(Options{Dir: dir})
		for i := 0; ; i++ {
			d := testDecision()
			d.Key.CPUs = i % 50
			d.Evidence[0].Ratio = float64(i)
			if err := s.PutDecision(d); err != nil {
				os.Exit(3)
			}
		}
	}
	s, dir := tempStore(t)
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriterLeavesAWholeStore$")
		cmd.Env = append(os.Environ(), "CACHE_TEST_WRITE_FOREVER="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		bad, n, err := s.Verify(false)
		if err != nil || len(bad) > 0 {
			t.Fatalf("after a kill: %v %v", bad, err)
		}
		if n == 0 {
			t.Skip("the writer did not get to write")
		}
	}
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

func TestExplainGCAndShow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "c")
	s := Open(Options{Dir: dir, Now: func() time.Time { return now }})
	defer s.Close()
	for cpus := 1; cpus <= 3; cpus++ {
		d := testDecision()
		d.Key.CPUs = cpus
		if cpus == 3 {
			d.Artifacts = []string{kernel.KeyDigest(testRequest())}
		}
		if err := s.PutDecision(d); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	if err := s.PutArtifact(testRequest(), testArtifact(), "tuned"); err != nil {
		t.Fatal(err)
	}
	want := testDecisionKey()
	want.Host.Kernel = "7.0"
	ex, err := s.Explain(want)
	if err != nil || len(ex) != 3 {
		t.Fatalf("%v %v", ex, err)
	}
	if ex[0].Lookup.Status != Revalidate || ex[1].Lookup.Status != Miss || ex[1].Lookup.Diffs[0].Path != "CPUs" {
		t.Errorf("%+v", ex)
	}
	if _, rec, err := s.Show(ex[0].Info.Digest[:8]); err != nil || rec.(*Decision).Key.CPUs != 2 {
		t.Errorf("show: %v %v", rec, err)
	}
	if _, _, err := s.Show("ffffffffff"); err == nil {
		t.Error("show of nothing")
	}
	gone, err := s.GC(150*time.Minute, 0)
	if err != nil || len(gone) != 1 {
		t.Fatalf("gc by age: %v %v", gone, err)
	}
	if gone, err = s.GC(0, 1); err != nil || len(gone) != 3 {
		t.Fatalf("gc by size: %v %v", gone, err)
	}
}

// TensorComprehensions#230: what another machine measured is a candidate here.
func TestBundleCarriesCandidates(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := tempStore(t)
	if err := a.PutDecision(testDecision()); err != nil {
		t.Fatal(err)
	}
	if err := a.PutRule(Rule{Key: testRuleKey()}); err != nil {
		t.Fatal(err)
	}
	out, n, err := a.Export(priv)
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	b, _ := tempStore(t)
	if added, _, err := b.Import(out, pub); err != nil || added != 2 {
		t.Fatal(added, err)
	}
	if _, look := b.Decision(testDecisionKey()); look.Status != Revalidate || !strings.Contains(look.Why, "imported") {
		t.Errorf("%+v", look)
	}
	if _, look := b.Rule(testRuleKey()); look.Status != Revalidate {
		t.Errorf("%+v", look)
	}
	other, _, _ := ed25519.GenerateKey(nil)
	if _, _, err := b.Import(out, other); !errors.Is(err, ErrSignature) {
		t.Errorf("foreign key: %v", err)
	}
	i := bytes.Index(out, []byte(`"bundle"`)) + 20
	out[i] ^= 1
	if _, _, err := b.Import(out, pub); err == nil {
		t.Error("an altered bundle was imported")
	}
	if added, kept, err := a.Import(mustExport(t, a, priv), pub); err != nil || added != 0 || kept != 2 {
		t.Errorf("own entries must be kept: %d %d %v", added, kept, err)
	}
}

func mustExport(t *testing.T, s *Store, k ed25519.PrivateKey) []byte {
	b, _, err := s.Export(k)
	if err != nil {
		t.Fatal(err)
	}
	return b
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

func FuzzUnseal(f *testing.F) {
	good, err := seal(testDecision())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("tilewright 1 00 2\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decision
		if err := unseal(b, &d); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("untyped error %v", err)
		}
	})
}

func FuzzBundle(f *testing.F) {
	pub, _, _ := ed25519.GenerateKey(bytes.NewReader(make([]byte, 64)))
	f.Add([]byte(`{"bundle":"e30=","public_key":"","signature":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := openBundle(b, pub); err == nil {
			t.Error("an unsigned bundle was opened")
		}
	})
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
