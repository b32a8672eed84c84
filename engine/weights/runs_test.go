package weights

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
)

// TestCopyRuns: a matrix copied run by run into another number of columns has the same rows, and
// padded channels of code Bias and scale 0.
func TestCopyRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom([]kernel.Format{kernel.FormatQ4_0, kernel.FormatQ8_0, kernel.Asym(32), kernel.Asym(64)}).Draw(rt, "format")
		n := rapid.IntRange(1, 300).Draw(rt, "n")
		cols := rapid.SampledFrom([]int{1, 2, 4})
		place := func(cols int) (*Tensor, *mem.Block) {
			w := tensor(rt, "q", n, 128, f, kernel.Layout{Lanes: 16, Cols: cols})
			b, err := mem.New(w.Room(), false)
			if err != nil {
				rt.Fatal(err)
			}
			w.Place(b)
			return w, b
		}
		from, b := place(cols.Draw(rt, "from"))
		defer b.Free()
		to, c := place(cols.Draw(rt, "to"))
		defer c.Free()
		if err := Synthesize(from, 0, from.Panels, 7); err != nil {
			rt.Fatal(err)
		}
		if !to.CopyRuns(from, 0, to.Panels) {
			rt.Fatal("not copied")
		}
		want, got := make([]float32, 128), make([]float32, 128)
		for i := range n {
			if err := from.Row(i, want); err != nil {
				rt.Fatal(err)
			}
			if err := to.Row(i, got); err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(want, got) {
				rt.Fatalf("row %d differs", i)
			}
		}
		l := to.Layout
		for ch := n; ch < to.PaddedN(); ch++ {
			if ch < from.PaddedN() {
				continue // as it was
			}
			codes, scales := to.panel(ch / l.NR())
			for k := range 128 {
				off, shift := l.CodeAt(f, ch%l.NR(), k)
				if code := codes[off] >> shift & byte(1<<f.Bits-1); int(code) != f.Bias {
					rt.Fatalf("padded channel %d has code %d", ch, code)
				}
			}
			if at := l.ScaleAt(f, ch%l.NR(), 0); scales[at] != 0 || scales[at+1] != 0 {
				rt.Fatalf("padded channel %d has a scale", ch)
			}
		}
	})
	w := tensor(t, "q", 16, 128, kernel.FormatF16, kernel.Layout{Lanes: 16, Cols: 1})
	if w.CopyRuns(w, 0, 0) {
		t.Error("floats are not cut into runs of codes")
	}
}
