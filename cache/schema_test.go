package cache

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tilewright/tilewright/kernel"
)

var update = flag.Bool("update", false, "rewrite the golden entries of the current schema")

// kernel_tuner#194: entries written by every released schema stay readable.
func TestGoldenSchemas(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := testDecision()
	d.Created = at
	d.Arm.Knobs = kernel.Knobs{ThreadsDecode: 2, ThreadsPrefill: 2, RepackRows: 2048, PanelMinM: 129, PrefillChunk: 512,
		SpinMicros: 50, HugePages: true, KV: kernel.ElemF16} // whatever the defaults are now
	r := Rule{Key: testRuleKey(), Created: at}
	a := ArtifactRecord{Request: testRequest(), Artifact: *testArtifact(), Origin: "tuned", Digest: testArtifact().Digest(), Created: at}
	golden := map[string]any{"decision": &d, "rule": &r, "artifact": &a}
	dir := filepath.Join("testdata", "schema1")
	if *update {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range golden {
		path := filepath.Join(dir, name+".json")
		if *update {
			b, err := seal(want)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{"decision": &Decision{}, "rule": &Rule{}, "artifact": &ArtifactRecord{}}[name]
		if err := unseal(b, got); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
