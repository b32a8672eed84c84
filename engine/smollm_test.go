package engine_test

import (
	"math"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/sample"
)

type smolLogits struct {
	Sequences []struct {
		Name   string    `json:"name"`
		IDs    []int     `json:"ids"`
		Top    []int     `json:"top32_ids"`
		Logits []float32 `json:"top32_logits"`
		Fixed  []float32 `json:"fixed_logits"`
	} `json:"sequences"`
	FixedIDs []int `json:"fixed_ids"`
}

// TestSmolLM2 compares the real model with its references, within the tolerances of its README.
func TestSmolLM2(t *testing.T) {
	dir := gguftest.Shared(t, "models/smollm2-135m")
	ref := readJSON[smolLogits](t, dir+"/logits.json")
	for _, c := range []struct {
		w      model.Weights
		length int // of the longest sequence; a portable float32 pass is slow
		tol    float64
		margin float64
	}{{model.F32, 64, 1e-3, 0.01}, {model.W4A16, 513, 0.05, 0.1}, {model.W4A8, 513, 3, 1}} {
		t.Run(string(c.w), func(t *testing.T) {
			e := load(t, open(t, dir+"/model.gguf"), nativeOptions(c.w))
			t.Logf("%+v", e.Stats())
			for _, seq := range ref.Sequences {
				if len(seq.IDs) > c.length {
					continue
				}
				logits := prefill(t, e, seq.IDs)
				worst := 0.0
				for i, id := range seq.Top {
					worst = max(worst, math.Abs(float64(logits[id]-seq.Logits[i])))
				}
				for i, id := range ref.FixedIDs {
					worst = max(worst, math.Abs(float64(logits[id]-seq.Fixed[i])))
				}
				if !(worst < c.tol) {
					t.Errorf("%s (%d tokens): logits differ by %.3g, %g allowed", seq.Name, len(seq.IDs), worst, c.tol)
				}
				if gap := float64(seq.Logits[0] - seq.Logits[1]); gap > 2*c.tol && sample.Argmax(logits) != seq.Top[0] {
					t.Errorf("%s: best token %d, want %d", seq.Name, sample.Argmax(logits), seq.Top[0])
				}
			}
			greedy(t, e, dir, c.margin)
		})
	}
}

type smolGreedy struct {
	Cases []struct {
		Name    string    `json:"name"`
		Prompt  []int     `json:"prompt_ids"`
		IDs     []int     `json:"fp32_ids"`
		Margins []float64 `json:"fp32_margin"`
	} `json:"cases"`
}

// greedy follows two continuations up to the first step whose margin is too small to tell.
func greedy(t *testing.T, e *engine.Engine, dir string, margin float64) {
	for _, c := range readJSON[smolGreedy](t, dir+"/greedy.json").Cases[:2] {
		s := session(t, e)
		logits, err := s.Prefill(t.Context(), c.Prompt)
		for i, want := range c.IDs[:20] {
			if err != nil {
				t.Fatal(err)
			}
			if c.Margins[i] < margin {
				break
			}
			if id := sample.Argmax(logits); id != want {
				t.Errorf("%s: greedy token %d is %d, want %d (margin %.3g)", c.Name, i, id, want, c.Margins[i])
				break
			}
			logits, err = s.Step(t.Context(), want)
		}
	}
}
