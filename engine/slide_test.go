package engine_test

import (
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/sample"
)

// TestSlidingCache: a cache that gives up what windows have passed generates the same as one that keeps
// all, and a sequence cut back too far starts over.
func TestSlidingCache(t *testing.T) {
	for _, name := range []string{"spark2_5-q5_0", "gemma3-q8_0"} {
		t.Run(name, func(t *testing.T) {
			m, ref := tinyModel(t, name)
			seq := ref.Sequences[len(ref.Sequences)-1]
			o := nativeOptions(model.F32)
			o.Knobs.PrefillChunk, o.Context = 48, 512
			e := load(t, m, o)
			full, slid := session(t, e), session(t, e)
			full.KeepBehind(1 << 20)
			slid.KeepBehind(0)
			ids := seq.IDs
			for len(ids) < 460 {
				ids = append(slices.Clone(ids), seq.IDs...)
			}
			generate := func(ids []int) {
				t.Helper()
				for range 50 {
					want, err := full.Prefill(t.Context(), ids)
					if err != nil {
						t.Fatal(err)
					}
					want = slices.Clone(want)
					got, err := slid.Prefill(t.Context(), ids)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("at %d positions: logits differ by %.2g", full.Len(), maxDiff(got, want))
					}
					ids = []int{sample.Argmax(got)}
				}
			}
			generate(ids[:460])
			at := slid.Len() - 3
			for _, cut := range []struct{ to, left int }{{at, at}, {37, 0}} {
				if err := full.Truncate(cut.to); err != nil {
					t.Fatal(err)
				}
				if err := slid.Truncate(cut.to); err != nil {
					t.Fatal(err)
				}
				if full.Len() != cut.to || slid.Len() != cut.left {
					t.Fatalf("cut to %d: %d and %d are left, want %d", cut.to, full.Len(), slid.Len(), cut.left)
				}
			}
			full.Reset()
			generate(ids[:300])
		})
	}
}
