package cache

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

func testHost() HostKey {
	return HostKey{
		Arch: "amd64", CPU: "AuthenticAMD 25 1", Features: kernel.NewFeatures("avx2", "fma", "f16c"),
		Microcode: "0xa0011d1", Mitigations: "spectre_v2", Kernel: "6.1", THP: "madvise", Governor: "performance",
		NUMA: "1", CoreClass: "P", Quota: "none", Hostname: "box",
	}
}

func testDecisionKey() DecisionKey {
	return DecisionKey{
		Schema: Schema,
		Model: ModelKey{
			Classes: []ClassKey{{Role: "gate_up", N: 13312, K: 2048, Format: kernel.Asym(128), Count: 28}},
			Heads:   8, KVHeads: 2, HeadDim: 256, Layers: 2, Windows: []int{512, 0}, Gate: "gelu", Name: "m", Path: "/x",
		},
		Weights: "w4a8", Phase: "decode+prefill", Context: 4096, CPUs: 2, Objective: "decode,prefill",
		Pinned: map[string]string{"TILEWRIGHT_THREADS": "2"}, Host: testHost(),
		Spaces:  map[string]string{"avx2/linear": "1"},
		Sources: Sources{Engine: "aa", Backends: map[string]string{"avx2": "bb"}}, Protocol: 1,
	}
}

func testRuleKey() RuleKey {
	return RuleKey{
		Schema: Schema, Weights: "w4a8", Arith: kernel.A8, Format: kernel.Asym(32), CPUs: 2,
		Pinned: map[string]string{}, Host: testHost(), Spaces: map[string]string{"avx2/linear": "1"},
		Sources: Sources{Engine: "aa", Backends: map[string]string{"avx2": "bb"}}, Protocol: 1,
	}
}

func testArtifactKey() kernel.ArtifactKey {
	return kernel.ArtifactKey{
		Problem: kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 1, N: 64, K: 128, Format: kernel.Asym(32), Layout: kernel.Layout{Lanes: 16, Cols: 2}},
		Config:  kernel.Config{"mr": 1, "prefetch": 512}, LayoutVersion: kernel.LayoutVersion,
		ISA: []string{"avx2", "fma"}, ABI: kernel.ABILeaf, Backend: kernel.BackendID{Name: "avx2", Digest: "bb"},
	}
}

func TestUntaggedFieldFails(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a field without a tag was accepted")
		}
	}()
	kernel.KeyFields(struct{ A int }{1})
}

// vllm#47573, dynamo#10695: paths and names are in no key.
func TestLocationIsNotIdentity(t *testing.T) {
	a, b := testDecisionKey(), testDecisionKey()
	b.Model.Path, b.Model.Name, b.Host.Hostname = "/elsewhere", "renamed", "other"
	if d := Compare(a, b); len(d) != 0 {
		t.Errorf("diffs %v", d)
	}
}

func TestContextBucket(t *testing.T) {
	for ctx, want := range map[int]int{0: 1024, 1024: 1024, 1025: 4096, 5000: 16384, 1 << 22: 1 << 20} {
		if got := ContextBucket(ctx); got != want {
			t.Errorf("ContextBucket(%d) = %d, want %d", ctx, got, want)
		}
	}
}
