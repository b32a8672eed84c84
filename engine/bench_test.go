package engine_test

import (
	"fmt"
	"os"
	"sort"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
)

// profile sums the time of each op.
type profile map[string]int64

func (p profile) Region(e engine.Event) { p[e.Op] += e.End - e.Start }

func (p profile) report(b *testing.B) {
	if testing.Verbose() {
		var names []string
		for n := range p {
			names = append(names, n)
		}
		sort.Slice(names, func(i, j int) bool { return p[names[i]] > p[names[j]] })
		for _, n := range names {
			b.Logf("%-8s %8.3f ms", n, float64(p[n])/float64(b.N)/1e6)
		}
	}
}

// BenchmarkPreset runs whole decode steps and prefills of 512 tokens with the default arm. The
// preset is TILEWRIGHT_BENCH_PRESET, or the smallest.
func BenchmarkPreset(b *testing.B) {
	name := os.Getenv("TILEWRIGHT_BENCH_PRESET")
	if name == "" {
		name = "smollm2-135m"
	}
	for _, w := range []model.Weights{model.W4A8, model.W4A16} {
		m, err := engine.Preset(name)
		if err != nil {
			b.Fatal(err)
		}
		o := nativeOptions(w)
		p := profile{}
		o.Observer = p
		e := load(b, m, o)
		st := e.Stats()
		b.Logf("loaded in %.2f s, %.0f MB", st.Seconds, float64(st.WeightsBytes)/1e6)
		ids := make([]int, 512)
		for i := range ids {
			ids[i] = (i*7919 + 13) % m.Spec.Vocab
		}
		b.Run(fmt.Sprintf("%s/%s/pp512", name, w), func(b *testing.B) {
			s := session(b, e)
			clear(p)
			for b.Loop() {
				s.Truncate(0)
				if _, err := s.Prefill(b.Context(), ids); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(512*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
			b.ReportMetric(512*float64(st.MACsPerToken)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			p.report(b)
		})
		for _, depth := range []int{128, 3968} {
			b.Run(fmt.Sprintf("%s/%s/tg@d%d", name, w, depth), func(b *testing.B) {
				s := session(b, e)
				if _, err := s.Prefill(b.Context(), ids[:128]); err != nil {
					b.Fatal(err)
				}
				if err := s.Repeat(depth); err != nil {
					b.Fatal(err)
				}
				clear(p)
				for b.Loop() {
					if _, err := s.Step(b.Context(), 17); err != nil {
						b.Fatal(err)
					}
					s.Truncate(depth)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
				b.ReportMetric(float64(st.BytesPerToken)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				b.ReportMetric(float64(e.KVBytes(depth))*float64(b.N)/float64(p["attn"]), "attn-GB/s")
				p.report(b)
			})
		}
	}
}

// BenchmarkLoad loads TILEWRIGHT_BENCH_MODEL, a GGUF file that should be in the page cache.
func BenchmarkLoad(b *testing.B) {
	path := os.Getenv("TILEWRIGHT_BENCH_MODEL")
	if path == "" {
		b.Skip("TILEWRIGHT_BENCH_MODEL is not set")
	}
	for b.Loop() {
		m, err := engine.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		e, err := engine.Load(b.Context(), m, nativeOptions(model.W4A8))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(e.Stats().WeightsBytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
		b.StopTimer()
		e.Close()
		m.Close()
		b.StartTimer()
	}
}
