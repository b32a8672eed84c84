package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/sample"
)

var tiny = []string{"llama-f16", "llama-q4_0", "llama-k256-q4_k_m", "llama3-rope-bf16", "qwen2-q4_1",
	"qwen3-q8_0", "spark2_5-q5_0", "gemma3-q8_0"}

type reference struct {
	Sequences []struct {
		IDs     []int     `json:"ids"`
		Logits  []float32 `json:"logits"`
		Argmax  []int     `json:"argmax"`
		Greedy  []int     `json:"greedy"`
		Margins []float64 `json:"margins"`
	} `json:"sequences"`
}

func tinyModel(t testing.TB, name string) (*model.Model, reference) {
	dir := gguftest.Shared(t, "models/tiny/gguf-"+name)
	return open(t, dir+"/"+name+".gguf"), readJSON[reference](t, dir+"/reference.json")
}

// TestTinyModelsF32 compares every architecture with its float64 reference: logits of the last
// position, the best token of every position, and greedy continuations.
func TestTinyModelsF32(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			m, ref := tinyModel(t, name)
			o := options(model.F32)
			o.Knobs.PrefillChunk = 48 // so that the longest prompt takes three passes
			e := load(t, m, o)
			for _, seq := range ref.Sequences {
				s := session(t, e)
				logits, err := s.Prefill(t.Context(), seq.IDs)
				if err != nil {
					t.Fatal(err)
				}
				if d := maxDiff(logits, seq.Logits); !(d < 2e-4) {
					t.Errorf("prompt of %d: logits differ by %.2g, at most 2e-4 allowed", len(seq.IDs), d)
				}
				for i, want := range seq.Greedy {
					id := sample.Argmax(logits)
					if id != want {
						t.Errorf("prompt of %d: greedy token %d is %d, want %d (margin %.3g)", len(seq.IDs), i, id, want, seq.Margins[i])
						break
					}
					if logits, err = s.Step(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				}
				all := session(t, e)
				err = all.All(t.Context(), seq.IDs, func(i int, logits []float32) {
					if id := sample.Argmax(logits); id != seq.Argmax[i] {
						t.Errorf("prompt of %d: best token at %d is %d, want %d", len(seq.IDs), i, id, seq.Argmax[i])
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPrefillEqualsSteps runs the longest prompt token by token, in chunks, and after a truncation.
func TestPrefillEqualsSteps(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			m, ref := tinyModel(t, name)
			seq := ref.Sequences[len(ref.Sequences)-1]
			for _, chunk := range []int{1, 33} {
				o := nativeOptions(model.F32)
				o.Knobs.PrefillChunk = chunk
				e := load(t, m, o)
				s := session(t, e)
				for round := range 2 {
					logits, err := s.Prefill(t.Context(), seq.IDs[s.Len():])
					if err != nil {
						t.Fatal(err)
					}
					if d := maxDiff(logits, seq.Logits); !(d < 2e-4) {
						t.Errorf("chunks of %d, round %d: logits differ by %.2g", chunk, round, d)
					}
					if err := s.Truncate(37); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestTinyModelsQuantised holds integer activations to the bounds that random weights allow.
func TestTinyModelsQuantised(t *testing.T) {
	bounds := map[model.Weights]struct {
		diff   float64
		argmax int // of 165
	}{model.W4A8: {1.2, 140}, model.W4A16: {0.1, 160}}
	for w, bound := range bounds {
		for _, name := range []string{"llama-q4_0", "qwen2-q4_1", "qwen3-q8_0", "spark2_5-q5_0", "llama-k256-q4_k_m"} {
			t.Run(fmt.Sprintf("%s %s", w, name), func(t *testing.T) {
				m, ref := tinyModel(t, name)
				e := load(t, m, options(w))
				worst, equal, total := 0.0, 0, 0
				for _, seq := range ref.Sequences {
					s := session(t, e)
					err := s.All(t.Context(), seq.IDs, func(i int, logits []float32) {
						if sample.Argmax(logits) == seq.Argmax[i] {
							equal++
						}
						if total++; i == len(seq.IDs)-1 {
							worst = max(worst, maxDiff(logits, seq.Logits))
						}
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				t.Logf("logits differ by at most %.3g, best token equal at %d of %d", worst, equal, total)
				if !(worst < bound.diff) || equal < bound.argmax {
					t.Errorf("want at most %v and at least %d", bound.diff, bound.argmax)
				}
			})
		}
	}
}

// TestRequant: the grid changes only on request, and then to groups that K permits.
func TestRequant(t *testing.T) {
	m, _ := tinyModel(t, "llama-q4_0")
	kept, err := m.Classes(model.Numerics{Weights: model.W4A8})
	if err != nil {
		t.Fatal(err)
	}
	changed, err := m.Classes(model.Numerics{Weights: model.W4A8, Requant: 64})
	if err != nil {
		t.Fatal(err)
	}
	var names [2][]string
	for i, cs := range [][]model.Class{kept, changed} {
		for _, c := range cs {
			names[i] = append(names[i], c.String())
		}
		slices.Sort(names[i])
	}
	want := [2][]string{
		{"down/64x160/q4g32b8", "gate_up/320x64/q4g32b8", "head/384x64/q8g32b128", "o/64x64/q4g32b8", "qkv/128x64/q4g32b8"},
		{"down/64x160/q4g32a", "gate_up/320x64/q4g64a", "head/384x64/q4g64a", "o/64x64/q4g64a", "qkv/128x64/q4g64a"},
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("classes %v,\nwant %v", names, want)
	}
	o := options(model.W4A8)
	o.Requant = 64
	e := load(t, m, o)
	prefill(t, e, []int{1, 2, 3})
}
