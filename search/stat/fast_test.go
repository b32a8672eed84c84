package stat

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What is counted or selected is what sorting gives.
func TestShortCutsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 90).Draw(t, "values")
		if got, want := Median(xs), sortedQuantile(slices.Sorted(slices.Values(xs)), 0.5); got != want {
			t.Fatalf("median %v, sorted %v", got, want)
		}
		few := xs[:min(len(xs), 8)]
		n, seed := rapid.IntRange(1, 6).Draw(t, "n"), rapid.Uint64().Draw(t, "seed")
		if got, want := bootstrapEstimate(few, n, 0.95, seed), Bootstrap(few, n, Estimate, 0.95, seed); got != want {
			t.Fatalf("n %d of %v: %v, by sorting %v", n, few, got, want)
		}
	})
}
