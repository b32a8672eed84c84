package resolve

import (
	"strings"
	"testing"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/internal/keytest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
)

func testTarget(t testing.TB) Target {
	t.Helper()
	m, err := engine.Preset("smollm2-135m")
	if err != nil {
		t.Fatal(err)
	}
	return Target{Model: m, Numerics: model.Numerics{Weights: model.W4A8}, Context: 2048, CPUs: 2, Engine: "e0",
		Host: cache.HostKey{Arch: "amd64", Kernel: "6.1"}, Pinned: map[string]string{},
		Backends: map[string]BackendInfo{"generic": {"g0", "1"}}}
}

// vllm#43119, vllm#53366 (a count was missing), vllm#47573 (a name was not): every field of a model's
// description changes the key, but those that are no shape.
func TestEveryFieldOfTheModelIsInTheKey(t *testing.T) {
	target := testTarget(t)
	spec := *target.Model.Spec
	spec.Layers = append([]model.Layer(nil), spec.Layers[:2]...)
	spec.Ropes = append([]model.Rope(nil), spec.Ropes...)
	target.Model = &model.Model{Spec: &spec}
	k, err := target.DecisionKey()
	if err != nil {
		t.Fatal(err)
	}
	base := kernel.KeyDigest(k)
	apart := []string{".Arch", ".Name", ".Context", ".Eps", ".EmbedScale", ".QueryScale", ".Ropes[0].Factor", ".Ropes[0].Freqs[", ".Ropes longer"}
	changed := 0
	keytest.EachChange(&spec, func(path string, _ kernel.FieldClass) {
		want := true
		for _, p := range apart {
			if strings.HasPrefix(path, p) && path != ".Ropes[0].Freqs longer" {
				want = false
			}
		}
		if strings.HasPrefix(path, ".Layers") && strings.HasSuffix(path, ".Rope") {
			return // there is no such rotation
		}
		k, err := target.DecisionKey()
		if got := err != nil || kernel.KeyDigest(k) != base; got != want { // an error: no such shape
			t.Errorf("%s: the key changed %t, want %t", path, got, want)
		}
		changed++
	})
	if changed < 20 {
		t.Errorf("only %d fields were changed", changed)
	}
}

// TensorRT-LLM#17664 (metadata written, never compared), dealii#15873, openvm-eth#624: every field of
// the host's profile reaches the key by its class.
func TestEveryFieldOfTheHostIsInTheKey(t *testing.T) {
	var p host.Profile
	keytest.Fill(&p)
	key := func() cache.DecisionKey { return cache.DecisionKey{Host: HostKey(&p, p.Features())} }
	base := key()
	keytest.EachChange(&p, func(path string, class kernel.FieldClass) {
		if path == ".Limits.Quota" {
			class = kernel.Soft // informs in a profile, asks for revalidation here
		}
		got := kernel.Excluded
		if diffs := cache.Compare(base, key()); len(diffs) > 0 {
			got = diffs[0].Class
		}
		if got != class {
			t.Errorf("%s is %s, the key takes it as %s", path, class, got)
		}
	})
}

// triton#9118: results of another measurement protocol are hints. sglang#5716, vllm#24112: so are those
// of another build. triton-ascend#1664: pinned settings and environment are hard.
func TestWhatChangesAKey(t *testing.T) {
	base, err := testTarget(t).DecisionKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Target)
		want   kernel.FieldClass
	}{
		"engine build":  {func(t *Target) { t.Engine = "e1" }, kernel.Soft},
		"backend build": {func(t *Target) { t.Backends = map[string]BackendInfo{"generic": {"g1", "1"}} }, kernel.Soft},
		"space":         {func(t *Target) { t.Backends = map[string]BackendInfo{"generic": {"g0", "2"}} }, kernel.Hard},
		"pinned":        {func(t *Target) { t.Pinned = map[string]string{"kv-type": "f32"} }, kernel.Hard},
		"arithmetic":    {func(t *Target) { t.Numerics.Weights = model.W4A16 }, kernel.Hard},
		"CPUs":          {func(t *Target) { t.CPUs = 3 }, kernel.Hard},
		"context":       {func(t *Target) { t.Context = 20000 }, kernel.Hard},
		"same bucket":   {func(t *Target) { t.Context = 4096 }, kernel.Excluded},
	} {
		target := testTarget(t)
		c.change(&target)
		key, err := target.DecisionKey()
		if err != nil {
			t.Fatal(err)
		}
		got := kernel.Excluded
		if d := cache.Compare(base, key); len(d) > 0 {
			got = d[0].Class
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	other := base
	other.Protocol++
	if d := cache.Compare(base, other); len(d) != 1 || d[0].Class != kernel.Soft {
		t.Errorf("protocol: %+v", d)
	}
}
