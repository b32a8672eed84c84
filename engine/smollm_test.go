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

// TestSmolLM2 compares the real model with its references, within the tolerances of its README: the
// logits of short sequences, likelihood and best tokens over the start of a passage, and greedy runs.
func TestSmolLM2(t *testing.T) {
	dir := gguftest.Shared(t, "models/smollm2-135m")
	ref := readJSON[smolLogits](t, dir+"/logits.json")
	for _, c := range []struct {
		w      model.Weights
		logit  float64 // largest difference of a logit
		nll    float64 // of the mean negative log-likelihood
		top1   float64 // share of positions with the same best token
		margin float64 // down to which greedy tokens must agree
		tokens int     // of the passage; the bands of int8 activations hold for all of it
	}{{model.F32, 1e-3, 1e-4, 1, 0.01, 128}, {model.W4A16, 0.05, 1e-3, 0.985, 0.1, 128}, {model.W4A8, 3, 0.015, 0.95, 1, 1514}} {
		t.Run(string(c.w), func(t *testing.T) {
			e := load(t, open(t, dir+"/model.gguf"), nativeOptions(c.w))
			t.Logf("%+v", e.Stats())
			for _, seq := range ref.Sequences {
				if len(seq.IDs) > 40 && c.w != model.F32 {
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
				if !(worst < c.logit) {
					t.Errorf("%s (%d tokens): logits differ by %.3g, %g allowed", seq.Name, len(seq.IDs), worst, c.logit)
				}
			}
			nll, top1 := passage(t, e, dir, c.tokens)
			t.Logf("NLL differs by %.2g, best token equal at %.3f", nll, top1)
			if !(math.Abs(nll) <= c.nll) || top1 < c.top1 {
				t.Errorf("over the passage: NLL differs by %.2g (%g allowed), best token equal at %.3f (want %g)", nll, c.nll, top1, c.top1)
			}
			greedy(t, e, dir, c.margin)
		})
	}
}

// passage runs the first n tokens of the reference text: the difference of the mean negative
// log-likelihood, and the share of positions with the reference's best token.
func passage(t *testing.T, e *engine.Engine, dir string, n int) (nll, top1 float64) {
	ref := readJSON[struct {
		IDs  []int     `json:"ids"`
		NLL  []float64 `json:"nll"`
		Top1 []int     `json:"top1"`
	}](t, dir+"/passage.json")
	err := session(t, e).All(t.Context(), ref.IDs[:n], func(i int, logits []float32) {
		best := sample.Argmax(logits)
		if best == ref.Top1[i] {
			top1++
		}
		var sum float64
		for _, v := range logits {
			sum += math.Exp(float64(v - logits[best]))
		}
		nll += float64(logits[best]-logits[ref.IDs[i+1]]) + math.Log(sum) - ref.NLL[i]
	})
	if err != nil {
		t.Fatal(err)
	}
	return nll / float64(n), top1 / float64(n)
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
	for _, c := range readJSON[smolGreedy](t, dir+"/greedy.json").Cases {
		s := session(t, e)
		logits, err := s.Prefill(t.Context(), c.Prompt)
		for i, want := range c.IDs {
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
