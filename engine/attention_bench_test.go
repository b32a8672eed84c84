package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
)

// attnTimes notes the nanoseconds of attention and of rope.
type attnTimes struct{ attn, rope int64 }

func (t *attnTimes) Region(e engine.Event) {
	switch e.Op {
	case "attn":
		t.attn += e.End - e.Start
	case "rope":
		t.rope += e.End - e.Start
	}
}

// BenchmarkAttention runs attention and rope of the shape of spark-1.7b, all layers, in an engine whose
// matrices are small: medians of a prefill of 512 tokens and of one of 4000, in milliseconds a token,
// and of decode steps whose keys and values have left the caches, as they do between steps of the whole
// model.
func BenchmarkAttention(b *testing.B) {
	m, err := engine.Preset("spark-1.7b")
	if err != nil {
		b.Fatal(err)
	}
	s := m.Spec
	s.Hidden, s.FFN, s.Vocab = 256, 256, 512
	var t attnTimes
	o := nativeOptions(model.W4A8)
	o.Observer = &t
	e := load(b, m, o)
	ids := make([]int, 4000)
	for i := range ids {
		ids[i] = i * 7919 % s.Vocab
	}
	var attn, rope []int64
	note := func(run func() error) {
		t = attnTimes{}
		if err := run(); err != nil {
			b.Fatal(err)
		}
		attn, rope = append(attn, t.attn), append(rope, t.rope)
	}
	report := func(b *testing.B, n int) (attnNS float64) {
		for _, r := range []struct {
			name string
			ns   []int64
		}{{"attn", attn}, {"rope", rope}} {
			slices.Sort(r.ns)
			b.ReportMetric(float64(r.ns[len(r.ns)/2])/1e6/float64(n), r.name+"-ms/tok")
			b.ReportMetric(float64(r.ns[0])/1e6/float64(n), r.name+"-best-ms/tok")
		}
		b.ReportMetric(0, "ns/op")
		return float64(attn[len(attn)/2])
	}
	for _, n := range []int{512, 4000} {
		b.Run(fmt.Sprintf("pp%d", n), func(b *testing.B) {
			attn, rope = nil, nil
			x := session(b, e)
			for b.Loop() {
				x.Truncate(0)
				note(func() error { _, err := x.Prefill(b.Context(), ids[:n]); return err })
			}
			pairs := 0 // that rows and positions make, in all layers
			for _, l := range s.Layers {
				for i := 1; i <= n; i++ {
					seen := i
					if l.Window > 0 {
						seen = min(i, l.Window)
					}
					pairs += seen * s.Heads
				}
			}
			b.ReportMetric(2*float64(pairs*s.HeadDim)/report(b, n), "GMAC/s")
		})
	}
	cold := make([]byte, 96<<20)
	for _, depth := range []int{512, 4000} {
		b.Run(fmt.Sprintf("tg@d%d", depth), func(b *testing.B) {
			attn, rope = nil, nil
			x := session(b, e)
			if _, err := x.Prefill(b.Context(), ids[:128]); err != nil {
				b.Fatal(err)
			}
			if err := x.Repeat(depth); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for i := 0; i < len(cold); i += 64 {
					cold[i]++
				}
				note(func() error { _, err := x.Step(b.Context(), 17); return err })
				x.Truncate(depth)
			}
			b.ReportMetric(float64(e.KVBytes(depth))/report(b, 1), "GB/s")
		})
	}
}
