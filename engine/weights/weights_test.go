package weights

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

func tensor(t rapidOrTest, role string, n, k int, f kernel.Format, l kernel.Layout) *Tensor {
	w, err := NewTensor(model.Segment{Role: role, Parts: []model.Part{{Role: model.Role(role), Rows: n}}, Format: f, N: n, K: k}, l)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type rapidOrTest interface{ Fatal(...any) }

// TestShareCoversEveryPanelOnce: whatever the shapes, workers and units, each panel has one owner,
// ranges start at multiples of the unit, and shares are near each other in bytes.
func TestShareCoversEveryPanelOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ts []*Tensor
		var units []int
		for range rapid.IntRange(1, 4).Draw(t, "tensors") {
			f := rapid.SampledFrom([]kernel.Format{kernel.FormatQ4_0, kernel.FormatQ8_0, kernel.Asym(64)}).Draw(t, "format")
			ts = append(ts, tensor(t, "q", rapid.IntRange(1, 3000).Draw(t, "n"), 128, f, kernel.Layout{Lanes: 16, Cols: 1}))
			units = append(units, rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "unit"))
		}
		n := rapid.IntRange(1, 9).Draw(t, "workers")
		owners := make([][]int, len(ts))
		total, biggest := 0, 0
		for i, w := range ts {
			owners[i] = make([]int, w.Panels)
			total += w.Bytes()
		}
		for w := range n {
			bytes := 0
			Share(ts, func(i int) int { return units[i] }, w, n, func(i, lo, hi int) {
				if lo%units[i] != 0 {
					t.Fatalf("worker %d starts at panel %d of tensor %d, unit %d", w, lo, i, units[i])
				}
				for p := lo; p < hi; p++ {
					owners[i][p]++
				}
				bytes += (hi - lo) * ts[i].Stride()
			})
			biggest = max(biggest, bytes)
		}
		for i, o := range owners {
			for p, c := range o {
				if c != 1 {
					t.Fatalf("panel %d of tensor %d has %d owners", p, i, c)
				}
			}
		}
		if slack := 4 * 128 * 2 * 16 * 2; biggest > total/n+slack {
			t.Fatalf("the largest share is %d bytes of %d for %d workers", biggest, total, n)
		}
	})
}

// TestSynthesizeStatistics: mean 0, deviation 1/sqrt(K), the same weights in every layout, padding
// that is zero.
func TestSynthesizeStatistics(t *testing.T) {
	const n, k = 70, 256
	var first []float32
	for _, l := range []kernel.Layout{{Lanes: 16, Cols: 1}, {Lanes: 16, Cols: 4}, {Lanes: 4, Cols: 1}} {
		w := tensor(t, "q", n, k, kernel.Asym(128), l)
		b, err := mem.New(w.Room(), false)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Free()
		w.Place(b)
		if err := Synthesize(w, 0, w.Panels, 42); err != nil {
			t.Fatal(err)
		}
		all := make([]float32, w.PaddedN()*k)
		for r := range w.PaddedN() {
			if err := w.Row(r, all[r*k:(r+1)*k]); err != nil {
				t.Fatal(err)
			}
		}
		var sum, sq float64
		for _, v := range all[:n*k] {
			sum += float64(v)
			sq += float64(v) * float64(v)
		}
		if mean, dev := sum/n/k, math.Sqrt(sq/n/k); math.Abs(mean) > 0.002 || math.Abs(dev*16-1) > 0.05 {
			t.Errorf("%s: mean %v, deviation %v, want 0 and 1/16", l, mean, dev)
		}
		for i, v := range all[n*k:] {
			if v != 0 {
				t.Fatalf("%s: padding %d is %v", l, i, v)
			}
		}
		if first == nil {
			first = all
		}
		for i := range n * k {
			if all[i] != first[i] {
				t.Fatalf("%s: weight %d is %v, in the first layout %v", l, i, all[i], first[i])
			}
		}
	}
}
