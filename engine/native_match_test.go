package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// TestNativeMatchesPortable runs the same model on generated and on portable kernels, in prefills of
// every size class and in steps.
func TestNativeMatchesPortable(t *testing.T) {
	m := small()
	for _, w := range []model.Weights{model.W4A8, model.W4A16} {
		want, got := load(t, m, options(w)), load(t, m, nativeOptions(w))
		for _, n := range []int{1, 2, 4, 9, 17, 64, 129, 300} {
			t.Run(fmt.Sprintf("%s %d", w, n), func(t *testing.T) {
				ids := make([]int, n)
				for i := range ids {
					ids[i] = (i*i + 7*n) % m.Spec.Vocab
				}
				a, b := session(t, want), session(t, got)
				for range 3 {
					x, err := a.Prefill(t.Context(), ids)
					if err != nil {
						t.Fatal(err)
					}
					y, err := b.Prefill(t.Context(), ids)
					if err != nil {
						t.Fatal(err)
					}
					// Codes of activations may round apart at ties, which moves an int8 logit a little.
					if d := maxDiff(x, y); !(d < map[model.Weights]float64{model.W4A8: 0.1, model.W4A16: 2e-3}[w]) {
						t.Errorf("logits after %d tokens differ by %.2g", a.Len(), d)
					}
					ids = ids[:1]
				}
			})
		}
	}
}

// TestLongContext: with more workers than KV heads a step's positions are split between workers and
// merged; nothing changes but rounding.
func TestLongContext(t *testing.T) {
	m := small()
	m.Spec.Context = 2048
	ids := make([]int, 1500)
	for i := range ids {
		ids[i] = (i * 31) % m.Spec.Vocab
	}
	var want []float32
	for _, n := range []int{1, 3, 4} {
		o := nativeOptions(model.W4A16)
		o.Knobs = kernel.DefaultKnobs(n)
		o.Context = 2048
		e := load(t, m, o)
		s := session(t, e)
		logits, err := s.Prefill(t.Context(), ids)
		for i := range 4 {
			if err == nil {
				logits, err = s.Step(t.Context(), i)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = slices.Clone(logits)
		}
		if d := maxDiff(logits, want); !(d < 1e-3) {
			t.Errorf("%d threads: logits differ by %.2g", n, d)
		}
	}
}

// TestLargeMatrices: matrices from the sizes on from which decode walks several panels at once and hands
// out the end on demand. Workers share them in numbers of panels that do not divide, and change no bit.
func TestLargeMatrices(t *testing.T) {
	m := small()
	m.Spec.Hidden, m.Spec.FFN, m.Spec.Vocab, m.Spec.Layers = 2048, 2176, 4307, m.Spec.Layers[:1]
	run := func(o engine.Options) (out [][]float32) {
		s := session(t, load(t, m, o))
		for i := range 3 {
			logits, err := s.Step(t.Context(), 1000*i)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(logits))
		}
		return out
	}
	want := run(options(model.W4A8))
	var first [][]float32
	for _, n := range []int{1, 2, 3, 5} {
		o := nativeOptions(model.W4A8)
		o.Knobs = kernel.DefaultKnobs(n)
		got := run(o)
		if first == nil {
			first = got
		}
		for i := range got {
			if !slices.Equal(got[i], first[i]) {
				t.Errorf("%d threads, step %d: not the logits of one thread", n, i)
			}
			if d := maxDiff(got[i], want[i]); !(d < 0.1) {
				t.Errorf("%d threads, step %d: logits differ from the portable ones by %.2g", n, i, d)
			}
		}
	}
}
