package engine_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// small is a preset-like model (pseudo-random weights) of a shape that takes milliseconds, with every
// feature of spark: windows, two rotations, head gates, ragged panels.
func small() *model.Model {
	return &model.Model{Spec: &model.Spec{
		Arch: "spark2_5", Name: "small", Hidden: 64, FFN: 96, Vocab: 307, Heads: 4, KVHeads: 2, HeadDim: 32,
		Context: 512, Eps: 1e-6, Layers: []model.Layer{{Window: 16}, {Rope: 1}, {Window: 16}},
		Ropes: []model.Rope{model.NewRope(1e4, 32), model.NewRope(5e6, 8)}, Gate: kernel.GateGELU,
		HeadGate: model.HeadGateSigmoid, Tied: true, EmbedScale: 1, QueryScale: 0.2,
	}}
}

func prefill(t testing.TB, e *engine.Engine, ids []int) []float32 {
	t.Helper()
	logits, err := session(t, e).Prefill(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(logits)
}

func TestSyntheticIsFiniteAndTheSameInEveryLayout(t *testing.T) {
	ids := []int{5, 300, 7, 5, 5, 41, 0, 306}
	var first []float32
	for _, l := range []kernel.Layout{{Lanes: 16, Cols: 1}, {Lanes: 16, Cols: 4}, {Lanes: 4, Cols: 2}} {
		o := options(model.W4A16)
		o.Plan = fixed{portable{4}, l}
		e := load(t, small(), o)
		logits := prefill(t, e, ids)
		var ss float64
		for _, v := range logits {
			ss += float64(v) * float64(v)
		}
		if rms := math.Sqrt(ss / float64(len(logits))); !(rms > 0.1 && rms < 10) {
			t.Fatalf("%s: logits have an rms of %v", l, rms)
		}
		if first == nil {
			first = logits
		}
		if d := maxDiff(logits, first); !(d < 1e-3) {
			t.Errorf("%s: logits differ from those of the first layout by %.2g", l, d)
		}
	}
}

// fixed is a plan with one layout for everything.
type fixed struct {
	portable
	layout kernel.Layout
}

func (f fixed) Layout(context.Context, model.Class) (kernel.Layout, error) { return f.layout, nil }

// TestRepackAndSetLinear changes layouts and kernels under a running engine: logits stay the same,
// receipts show what ran.
func TestRepackAndSetLinear(t *testing.T) {
	e := load(t, small(), options(model.W4A16))
	ids := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	want := prefill(t, e, ids)
	numerics := model.Numerics{Weights: model.W4A16}
	classes, err := e.Model.Classes(numerics)
	if err != nil {
		t.Fatal(err)
	}
	src := portable{4}
	for round, l := range []kernel.Layout{{Lanes: 16, Cols: 2}, {Lanes: 8, Cols: 2}, {Lanes: 16, Cols: 1}} {
		for _, c := range classes {
			layers := c.Layers
			if layers == nil {
				layers = []int{-1}
			}
			for _, layer := range layers[round%len(layers):] {
				if err := e.Repack(t.Context(), layer, c, l); err != nil {
					t.Fatal(err)
				}
				if got, err := e.Layout(layer, c); err != nil || got != l {
					t.Fatalf("layout %v, %v after repacking to %s", got, err, l)
				}
				a, err := portable{round + 2}.Artifact(t.Context(), kernel.Choice{Problem: c.Problem(model.W4A16, 16, l)})
				if err != nil {
					t.Fatal(err)
				}
				if err := e.SetLinear(t.Context(), layer, c, 16, a); err != nil {
					t.Fatal(err)
				}
			}
		}
		e.ResetReceipts()
		if d := maxDiff(prefill(t, e, ids), want); !(d < 1e-3) {
			t.Errorf("round %d: logits moved by %.2g", round, d)
		}
		if len(e.Receipts()) == 0 {
			t.Error("no receipts")
		}
	}
	c := classes[0]
	a, _ := src.Artifact(t.Context(), kernel.Choice{Problem: c.Problem(model.W4A16, 16, kernel.Layout{Lanes: 4, Cols: 1})})
	if err := e.SetLinear(t.Context(), 0, c, 16, a); err == nil {
		t.Error("an artifact for another layout was accepted")
	}
	if err := e.Repack(t.Context(), 99, c, kernel.Layout{Lanes: 4, Cols: 1}); err == nil {
		t.Error("layer 99 was accepted")
	}
}

// TestReceiptsCountEveryByte: a decode step streams bytes_per_token, no more and no less.
func TestReceiptsCountEveryByte(t *testing.T) {
	e := load(t, small(), options(model.W4A8))
	s := session(t, e)
	e.ResetReceipts()
	if _, err := s.Step(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, r := range e.Receipts() {
		sum += r.Bytes
	}
	if st := e.Stats(); sum != int64(st.BytesPerToken) || st.BytesPerToken != st.WeightsBytes {
		t.Errorf("receipts count %d bytes, bytes_per_token is %d, weights_bytes %d", sum, st.BytesPerToken, st.WeightsBytes)
	}
}

// TestWorkersAreCountedByPhase: the head of a prompt runs on one row, on the workers of decode.
func TestWorkersAreCountedByPhase(t *testing.T) {
	o := options(model.W4A8)
	o.Knobs = kernel.DefaultKnobs(1)
	o.CPUs, o.Knobs.ThreadsDecode, o.Knobs.ThreadsPrefill = nil, 3, 2
	e := load(t, small(), o)
	for _, c := range []struct {
		ids  []int
		want engine.Workers
	}{{[]int{1, 2, 3}, engine.Workers{Decode: 3, Prefill: 2}}, {[]int{1}, engine.Workers{Decode: 3}}} {
		e.ResetReceipts()
		if got := e.Workers(); got != (engine.Workers{}) {
			t.Errorf("%+v after a reset", got)
		}
		if _, err := session(t, e).Prefill(t.Context(), c.ids); err != nil || e.Workers() != c.want {
			t.Errorf("%d rows: %+v, want %+v, %v", len(c.ids), e.Workers(), c.want, err)
		}
	}
}

func TestErrorsLeaveTheSessionAsItWas(t *testing.T) {
	o := options(model.W4A8)
	o.Context = 20
	e := load(t, small(), o)
	s := session(t, e)
	if _, err := s.Prefill(t.Context(), []int{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	for name, ids := range map[string][]int{"nothing": nil, "too long": make([]int, 18), "unknown token": {1, 307}, "negative": {-1}} {
		if _, err := s.Prefill(t.Context(), ids); err == nil || s.Len() != 3 {
			t.Errorf("%s: error %v, length %d", name, err, s.Len())
		}
	}
	if _, err := s.Prefill(t.Context(), make([]int, 17)); err != nil {
		t.Errorf("filling the context: %v", err)
	}
	if err := s.Truncate(21); err == nil {
		t.Error("truncated to more than there is")
	}
	for _, bad := range []func(*engine.Options){
		func(o *engine.Options) { o.Weights = "w2" }, func(o *engine.Options) { o.Requant = 48 },
		func(o *engine.Options) { o.Context = 513 }, func(o *engine.Options) { o.Plan = nil },
		func(o *engine.Options) { o.Knobs.KV = "f8" }, func(o *engine.Options) { o.Knobs.ThreadsDecode = -1 },
	} {
		o := options(model.W4A8)
		bad(&o)
		if e, err := engine.Load(t.Context(), small(), o); err == nil {
			e.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

// TestThreadsDoNotChangeResults: shares of work differ, sums do not.
func TestThreadsDoNotChangeResults(t *testing.T) {
	ids := make([]int, 90)
	for i := range ids {
		ids[i] = i * 3
	}
	var want []float32
	for _, n := range []int{1, 2, 3, 7} {
		o := options(model.W4A8)
		o.Knobs = kernel.DefaultKnobs(n)
		e := load(t, small(), o)
		s := session(t, e)
		logits, err := s.Prefill(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if logits, err = s.Step(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
		if want == nil {
			want = slices.Clone(logits)
		}
		if d := maxDiff(logits, want); d != 0 {
			t.Errorf("%d threads: logits differ by %g", n, d)
		}
	}
}

func TestExplainAndProbes(t *testing.T) {
	m, _ := tinyModel(t, "llama-k256-q4_k_m")
	e := load(t, m, options(model.W4A8))
	x, err := e.Explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range x.Matrices {
		if !i.Kept || i.Error != 0 || i.Tensor == "" {
			t.Errorf("%s of layer %d: %s %s, kept %v, error %v", i.Role, i.Layer, i.Tensor, i.Type, i.Kept, i.Error)
		}
		if len(i.Kernels) != len(kernel.MPoints) {
			t.Errorf("%s of layer %d has %d kernels, want one for each of %v", i.Role, i.Layer, len(i.Kernels), kernel.MPoints)
		}
	}
	if len(x.Matrices) != 7*len(m.Spec.Layers)+1 || len(x.Kernels) < 5 {
		t.Errorf("%d matrices, %d other kernels", len(x.Matrices), len(x.Kernels))
	}
	n := newNative()
	for _, p := range []kernel.Problem{{Op: kernel.OpStream}, {Op: kernel.OpPeak, Arith: kernel.A8}} {
		c, err := n.Default(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		a, err := n.Emit(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		o := nativeOptions(model.W4A8)
		e := load(t, small(), o)
		var rate float64
		if p.Op == kernel.OpStream {
			rate, err = e.ProbeRead(a, 1)
		} else {
			rate, err = e.ProbePeak(a, 1, 1000)
		}
		if err != nil || !(rate > 0) {
			t.Errorf("%s: rate %v, error %v", p, rate, err)
		}
	}
}
