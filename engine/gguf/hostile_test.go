package gguf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/gguf/gguftest"
)

// TestHostileFiles: every broken file is an error of this package, save those whose defect is in
// the tokenizer, the template or the values of weights, which other packages judge.
func TestHostileFiles(t *testing.T) {
	dir := gguftest.Shared(t, "models/hostile")
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		File, Kind, Wrong, Class string
		MayAccept                bool `json:"may_accept"`
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		t.Fatal(err)
	}
	elsewhere := map[string]bool{
		"missing-tokenizer-ggml-tokens": true, "missing-tokenizer-ggml-model": true,
		"tokens-not-strings": true, "scores-short": true, "types-short": true,
		"bos-out-of-range": true, "merges-no-space": true, "tokenizer-unknown": true,
	}
	n := 0
	for _, e := range entries {
		if e.Kind != "gguf" {
			continue
		}
		n++
		name := strings.TrimSuffix(filepath.Base(e.File), ".gguf")
		start := time.Now()
		f, err := Open(filepath.Join(dir, e.File))
		if err == nil {
			_, err = ReadConfig(f)
			f.Close()
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s: took %v", name, d)
		}
		switch {
		case err != nil && e.Class == "accept":
			t.Errorf("%s: refused: %v", name, err)
		case err == nil && !e.MayAccept && !elsewhere[name]:
			t.Errorf("%s (%s): accepted", name, e.Wrong)
		}
		if err != nil {
			checkMessage(t, err)
			t.Logf("%s: %v", name, strings.ReplaceAll(err.Error(), dir, ""))
		}
	}
	if n == 0 {
		t.Error("the manifest names no GGUF files")
	}
}
