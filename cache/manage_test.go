package cache

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
)

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

// What took minutes to find goes after what is emitted in a moment, whatever its age.
func TestGCKeepsRulesLongest(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Open(Options{Dir: filepath.Join(t.TempDir(), "c"), Now: func() time.Time { return now }})
	defer s.Close()
	if err := s.PutRule(Rule{Key: testRuleKey()}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if err := s.PutArtifact(testRequest(), testArtifact(), "default"); err != nil {
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, in := range list {
		total += int64(in.Bytes)
	}
	gone, err := s.GC(0, total-1)
	if err != nil || len(gone) != 1 || gone[0].Kind != KindArtifact {
		t.Errorf("%+v, %v", gone, err)
	}
}

// triton#1242: two arms that share one binary are named; one arm for two N is no news.
func TestTwins(t *testing.T) {
	s, _ := tempStore(t)
	put := func(n int, prefetch int64, code byte) {
		req, a := testRequest(), testArtifact()
		req.Problem.N, a.Key.Problem.N = n, n
		req.Config = kernel.Config{"mr": 1, "prefetch": prefetch}
		a.Key.Config, a.Code = req.Config, []byte{code, 0xc3}
		if err := s.PutArtifact(req, a, "tuned"); err != nil {
			t.Fatal(err)
		}
	}
	put(64, 512, 0x90)
	put(128, 512, 0x90)
	put(64, 1024, 0x91)
	if twins, err := s.Twins(); err != nil || len(twins) != 0 {
		t.Fatalf("%v %v", twins, err)
	}
	put(64, 2048, 0x91)
	twins, err := s.Twins()
	if err != nil || len(twins) != 1 || len(twins[0].Entries) != 2 {
		t.Errorf("%+v %v", twins, err)
	}
}

// Host rules explain themselves like decisions do: against the closest of the keys asked for.
func TestExplainRules(t *testing.T) {
	s, _ := tempStore(t)
	if err := s.PutRule(Rule{Key: testRuleKey()}); err != nil {
		t.Fatal(err)
	}
	other, soft := testRuleKey(), testRuleKey()
	other.Format = kernel.Asym(128)
	soft.Host.Microcode = "new"
	ex, err := s.ExplainRules([]RuleKey{other, soft})
	if err != nil || len(ex) != 1 || ex[0].Lookup.Status != Revalidate || ex[0].Lookup.Diffs[0].Path != "Host.Microcode" {
		t.Errorf("%+v %v", ex, err)
	}
	if ex, _ = s.ExplainRules([]RuleKey{other}); ex[0].Lookup.Status != Miss || ex[0].Lookup.Diffs[0].Path != "Format.Group" {
		t.Errorf("%+v", ex)
	}
}
