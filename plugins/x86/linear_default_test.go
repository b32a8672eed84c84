package x86

import (
	"context"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// The block of weights of a prefill follows the second-level cache of a core.
func TestBlocksFollowCache(t *testing.T) {
	for _, c := range []struct {
		isa  ISA
		l2   int64 // KiB, 0 for unknown
		want int64
	}{
		{AVX512, 0, 768}, {AVX512, 2048, 768}, {AVX512, 1280, 384}, {AVX512, 1024, 384}, {AVX512, 512, 128}, {AVX512, 16, 64},
		{AVX2, 0, 128}, {AVX2, 512, 128}, {AVX2, 256, 64}, {AVX2, 1024, 256}, {AVXVNNI, 1280, 256}, {AVXVNNI, 2048, 384},
	} {
		host := c.isa.Features.WithCache(2, c.l2<<10)
		p := benchProblem(c.isa, kernel.Asym(128), kernel.A8, 512)
		s, err := testBackend(c.isa).Space(context.Background(), host, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Default()[parBlock]; got != c.want {
			t.Errorf("%s with %d KiB: %d, want %d", c.isa.Name, c.l2, got, c.want)
		}
	}
}
