package session

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/preflight"
)

// An in-situ block in which a worker waited is dropped and counted, unless a busy machine was allowed;
// what the watch saw comes first.
func TestInSituBlocksAreCounted(t *testing.T) {
	sched := func(share float64) preflight.Wait { return preflight.Wait{Share: share, By: preflight.BySched} }
	for _, c := range []struct {
		name  string
		busy  bool
		waits []preflight.Wait
		kept  int
		by    string
	}{
		{"quiet", false, []preflight.Wait{sched(0.001), sched(0), sched(0.002)}, 3, preflight.BySched},
		{"one disturbed", false, []preflight.Wait{sched(0.001), sched(0.3), sched(0)}, 2, preflight.BySched},
		{"busy allowed", true, []preflight.Wait{sched(0.001), sched(0.3), sched(0)}, 3, preflight.BySched},
		{"unknown", false, []preflight.Wait{{}, {}}, 2, "unknown"},
	} {
		var res Result
		w := &tallied{Watch: still{}, stage: "screen", busy: c.busy, res: &res}
		for _, x := range c.waits {
			w.Kept(w.Mark(), x)
		}
		b := (&tune{res: res, Options: Options{Suite: &kernel.Suite{}}}).result().Blocks[0]
		if most := slices.MaxFunc(c.waits, func(a, b preflight.Wait) int { return cmp.Compare(a.Share, b.Share) }).Share; b.Waits.Most != most {
			t.Errorf("%s: most %v, want %v", c.name, b.Waits.Most, most)
		}
		if len(res.Blocks) != 1 || b.Kept != c.kept || b.Of != len(c.waits) || b.Waits.By != c.by {
			t.Errorf("%s: %+v", c.name, res.Blocks)
		}
		if dropped := c.kept < len(c.waits); dropped != strings.Contains(b.Why, "30.0% of the block") {
			t.Errorf("%s: why %q", c.name, b.Why)
		}
	}
}
