package x86

import (
	"fmt"
	"testing"

	"github.com/tilewright/tilewright/internal/mca"
	"github.com/tilewright/tilewright/kernel"
)

// model is a processor's static model, and the bytes that its dot products take in a cycle.
type model struct {
	isa  ISA
	cpu  string
	peak float64
}

// models give two VPDPBUSD of 64 or 32 bytes a cycle, and two VPMADDUBSW of 32, whose sums cost other ports as
// much again.
var models = []model{{AVX512, "cascadelake", 128}, {AVXVNNI, "alderlake", 64}, {AVX2, "znver3", 64}}

// BenchmarkPredicted is what a static model says of the default kernels of a layer with K = 2048, run on a
// machine without AVX-512 too: cycles of one call of main for the fewest panels, weights per cycle, and
// the share of the peak.
func BenchmarkPredicted(b *testing.B) {
	if _, err := mca.Tool(); err != nil {
		b.Skip("mca: ", err)
	}
	formats := append([]kernel.Format{kernel.FormatQ4_1}, benchFormats...)
	for _, on := range models {
		for _, arith := range []kernel.Arith{kernel.A8, kernel.A16} {
			for _, m := range []int{1, 4, 16, 512} {
				for _, f := range formats {
					p := benchProblem(on.isa, f, arith, m)
					b.Run(fmt.Sprintf("%s/%s/m%d/%s", on.isa.Name, arith, m, f), func(b *testing.B) { on.predict(b, p, kernel.EntryMain) })
					if m == 512 && unpacks(p) {
						b.Run(fmt.Sprintf("%s/%s/unpack/%s", on.isa.Name, arith, f), func(b *testing.B) { on.predict(b, p, kernel.EntryUnpack) })
					}
				}
			}
		}
	}
}

// BenchmarkPredictedQuant is the same of the kernels of BenchmarkQuant: cycles for each element.
func BenchmarkPredictedQuant(b *testing.B) {
	if _, err := mca.Tool(); err != nil {
		b.Skip("mca: ", err)
	}
	for _, p := range quantBenchProblems() {
		b.Run(p.String(), func(b *testing.B) {
			_, r := simulateWith(b, p, kernel.EntryMain, nil)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.Cycles/float64(p.K), "cycles/element")
			b.ReportMetric(float64(r.Uops)/float64(p.K), "uops/element")
		})
	}
}

// simulateWith runs the AVX-512 model where branches also depend on what is in memory, see mca.Trace.
func simulateWith(b *testing.B, p kernel.Problem, entry string, memory map[string]int64) (*kernel.Artifact, mca.Prediction) {
	return models[0].simulate(b, p, entry, memory)
}

// simulate runs the model over an entry of the default kernel of a problem.
func (on model) simulate(b *testing.B, p kernel.Problem, entry string, memory map[string]int64) (*kernel.Artifact, mca.Prediction) {
	a := emit(b, on.isa, p, spaceOf(b, on.isa, p).Default())
	code, err := mca.Disassemble(b.Context(), a.Code, a.Entries[entry])
	if err != nil {
		b.Skip("mca: ", err)
	}
	seq, err := mca.Trace(code, memory)
	if err != nil {
		b.Fatal(err)
	}
	r, err := mca.Predict(on.cpu, seq)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
	}
	return a, r
}

func (on model) predict(b *testing.B, p kernel.Problem, entry string) {
	a, r := on.simulate(b, p, entry, nil)
	streams := 1
	if entry == kernel.EntryMain {
		streams = max(1, a.Exec.Streams)
		macs := float64(a.Exec.MR * streams * p.Layout.NR() * p.K)
		b.ReportMetric(100*macs/r.Cycles*float64(p.Arith.Bytes())/on.peak, "%peak")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.Cycles, "cycles")
	b.ReportMetric(float64(r.Instructions), "insts")
	b.ReportMetric(float64(r.Uops), "uops")
	b.ReportMetric(float64(r.Loads), "loads")
	b.ReportMetric(float64(p.Layout.TensorBytes(p.Format, streams*p.Layout.NR(), p.K))/r.Cycles, "B/cycle")
}
