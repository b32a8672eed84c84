package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/tokenizer"
)

// TestHostileFiles takes every broken GGUF file as far as it goes: an error somewhere on the way to
// the first logits, or finite logits where the file may be accepted. Nothing panics.
func TestHostileFiles(t *testing.T) {
	dir := gguftest.Shared(t, "models/hostile")
	type entry struct {
		File, Kind string
		MayAccept  bool `json:"may_accept"`
	}
	for _, c := range readJSON[[]entry](t, dir+"/manifest.json") {
		if c.Kind != "gguf" {
			continue
		}
		for _, w := range []model.Weights{model.W4A8, model.F32} {
			if err := firstLogits(t, filepath.Join(dir, c.File), w); err == nil && !c.MayAccept {
				t.Errorf("%s runs in %s", c.File, w)
			} else if err != nil && filepath.Base(c.File) == "control-valid.gguf" {
				t.Errorf("%s: %v", c.File, err)
			}
		}
	}
}

func firstLogits(t *testing.T, path string, w model.Weights) error {
	if f, err := gguf.Open(path); err == nil {
		_, err = tokenizer.FromGGUF(f)
		f.Close()
		if err != nil {
			return err
		}
	}
	m, err := engine.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	o := nativeOptions(w)
	o.Context = min(64, m.Spec.Context)
	e, err := engine.Load(t.Context(), m, o)
	if err != nil {
		return err
	}
	defer e.Close()
	s, err := e.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	logits, err := s.Prefill(t.Context(), []int{1, 2, 3})
	if err != nil {
		return err
	}
	for i, v := range logits {
		if v-v != 0 {
			t.Errorf("%s in %s: logit %d is %v", path, w, i, v)
			break
		}
	}
	return nil
}
