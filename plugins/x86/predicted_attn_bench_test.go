package x86

import (
	"fmt"
	"testing"

	"github.com/tilewright/tilewright/internal/mca"
	"github.com/tilewright/tilewright/kernel"
)

// BenchmarkPredictedAttn is what a static model says of the default AVX-512 kernels of attention and rope
// in the shapes of spark-1.7b: four query heads share a KV head of 256; a tile of a prefill is eight
// tokens. A model without caches says how much of the peak of float multiply-adds, 32 in every cycle,
// instructions alone leave, and how many bytes of keys and values a cycle takes.
func BenchmarkPredictedAttn(b *testing.B) {
	const dim, positions = 256, 64
	for _, m := range []int{4, 32} {
		b.Run(fmt.Sprintf("m%d", m), func(b *testing.B) {
			p := kernel.Problem{Op: kernel.OpAttn, M: m, Dim: dim, Elem: kernel.ElemF16}
			r := traced(b, p, kernel.EntryMain, attnMemory(positions))
			macs := float64(2 * m * dim * positions)
			b.ReportMetric(r.Cycles, "cycles")
			b.ReportMetric(r.Cycles/macs, "cycles/MAC")
			b.ReportMetric(100*macs/r.Cycles/32, "%peak")
			b.ReportMetric(4*dim*positions/r.Cycles, "B/cycle")
			if m > 4 {
				// 28 layers of 8 heads, half of 512 positions on average, on two cores of 2.9 GHz
				b.ReportMetric(28*8*2*dim*256.5*r.Cycles/macs/2/2.9e6, "ms/tok")
			}
		})
	}
	for _, c := range []struct {
		name   string
		heads  int64
		elem   kernel.ElemType
		stride int64 // bytes
	}{{"queries", 4, kernel.ElemF32, 128}, {"keys", 1, kernel.ElemF16, 32}, {"values", 1, kernel.ElemF16, 2}} {
		b.Run("rope/"+c.name, func(b *testing.B) {
			const tokens = 8
			p := kernel.Problem{Op: kernel.OpRope, Dim: dim, Rot: dim, Elem: c.elem}
			if c.name == "values" {
				p.Rot = 0
			}
			r := traced(b, p, kernel.EntryRows, map[string]int64{"0x40(%rdi)": c.heads, "0x50(%rdi)": c.stride, "0x58(%rdi)": tokens, "0x8(%rdi)": 0})
			b.ReportMetric(r.Cycles, "cycles")
			b.ReportMetric(r.Cycles/float64(tokens*dim*c.heads), "cycles/elem")
		})
	}
}

// attnMemory is what decides the branches of OpAttn: all rows see n positions.
func attnMemory(n int64) map[string]int64 {
	return map[string]int64{"(%rsi,%rbx,4)": 0, "(%rdx,%rbx,4)": n, "0x48(%rdi)": n / kernel.KVBlock,
		"(%rax,%r14,4)": 0, "(%rbx,%r14,4)": n}
}

// traced is the prediction for an entry of the default kernel of a problem, given what is in memory.
func traced(b *testing.B, p kernel.Problem, entry string, memory map[string]int64) mca.Prediction {
	if _, err := mca.Tool(); err != nil {
		b.Skip("mca: ", err)
	}
	_, r := simulateWith(b, p, entry, memory)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(r.Instructions), "insts")
	return r
}
