package linear

import (
	"fmt"
	"sync/atomic"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// recorder stands for the kernel of one segment: it notes which panels were computed for which row
// block, from the addresses it is given.
type recorder struct {
	t      *rapid.T
	tensor *weights.Tensor
	k      *exec.Kernel
	act    *Act
	acts   unsafe.Pointer
	out    unsafe.Pointer // of the segment's first column
	stride int
	panels unsafe.Pointer // unpacked
	first  int            // panel that lies unpacked at panels
	have   int
	done   map[[2]int]int // block, panel
}

func diff(a, b unsafe.Pointer) int { return int(uintptr(a) - uintptr(b)) }

func (r *recorder) main(args unsafe.Pointer) {
	a := (*kernel.LinearArgs)(args)
	if a.Panels%int64(max(1, r.k.Streams)) != 0 {
		r.t.Fatalf("main was given %d panels, streams %d", a.Panels, r.k.Streams)
	}
	r.record(a)
}

func (r *recorder) tail(args unsafe.Pointer) {
	a := (*kernel.LinearArgs)(args)
	if a.Panels != 1 {
		r.t.Fatalf("tail was given %d panels", a.Panels)
	}
	p := diff(a.S, mem.Addr(r.tensor.Scales)) / r.tensor.ScaleBytes
	if s := r.k.Streams; r.k.Chunk%s == 0 && p < r.tensor.Panels/s*s {
		r.t.Fatalf("panel %d of %d is left over, streams %d", p, r.tensor.Panels, s)
	}
	r.record(a)
}

func (r *recorder) unpack(args unsafe.Pointer) {
	a := (*kernel.UnpackArgs)(args)
	r.panels, r.have = a.Out, int(a.Panels)
	r.first = diff(a.W, mem.Addr(r.tensor.Codes)) / r.tensor.PanelBytes
}

func (r *recorder) record(a *kernel.LinearArgs) {
	block := diff(a.A, r.acts) / r.act.BlockBytes(r.act.K)
	p := diff(a.S, mem.Addr(r.tensor.Scales)) / r.tensor.ScaleBytes
	at := diff(a.W, mem.Addr(r.tensor.Codes)) / r.tensor.PanelBytes
	if r.k.Panel {
		i := diff(a.W, r.panels) / r.k.PanelStride
		if i < 0 || i+int(a.Panels) > r.have {
			r.t.Fatalf("panel %d of %d unpacked ones is read", i, r.have)
		}
		at = r.first + i
	}
	if at != p {
		r.t.Fatalf("codes of panel %d with scales of panel %d", at, p)
	}
	if want := block*r.k.MR*r.stride + p*r.tensor.Layout.NR()*4; diff(a.Out, r.out) != want || int(a.LDC) != r.stride {
		r.t.Fatalf("block %d, panel %d goes to %d, want %d", block, p, diff(a.Out, r.out), want)
	}
	for i := range int(a.Panels) {
		r.done[[2]int{block, p + i}]++
	}
}

// TestEveryPanelOnce: whatever the shape, the kernel's wishes and the workers, each panel is computed
// once for each row block, from the right codes, scales and activations, to the right place.
func TestEveryPanelOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const k = 64
		m := rapid.SampledFrom([]int{1, 1, 2, 5, 16, 70}).Draw(t, "m")
		block, err := mem.New(64<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		defer block.Free()
		var segs []*weights.Tensor
		for range rapid.IntRange(1, 3).Draw(t, "segments") {
			n := rapid.IntRange(1, 900).Draw(t, "n")
			w, err := weights.NewTensor(model.Segment{Role: "x", Parts: []model.Part{{Role: "x", Rows: n}},
				Format: kernel.FormatQ4_0, N: n, K: k}, kernel.Layout{Lanes: 16, Cols: 1})
			if err != nil {
				t.Fatal(err)
			}
			w.Place(block)
			segs = append(segs, w)
		}
		r := NewRegion("x", 0, segs)
		out := mem.Addr(block.Take(200 * r.Stride))
		point := &Point{}
		var recs []*recorder
		var packed []Packed
		for i, s := range segs {
			e := kernel.Exec{MR: rapid.IntRange(1, 6).Draw(t, "mr"), Streams: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "streams"),
				Panel: m > 1 && rapid.Bool().Draw(t, "panel"), PanelStride: 1024, NC: rapid.SampledFrom([]int{0, 3, 8}).Draw(t, "nc"),
				MC: rapid.SampledFrom([]int{0, 4, 12}).Draw(t, "mc"), Chunk: rapid.SampledFrom([]int{0, 1, 3, 4}).Draw(t, "chunk")}
			act := Act{Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: e.MR}, K: k}
			point.Acts = append(point.Acts, act)
			point.ActOf = append(point.ActOf, i)
			packed = append(packed, act.At(mem.Addr(block.Take(act.Size(m))), m))
			rec := &recorder{t: t, tensor: s, act: &point.Acts[i], acts: packed[i].A, stride: r.Stride,
				out: unsafe.Add(out, 4*r.Cols[i]), done: map[[2]int]int{}}
			rec.k = &exec.Kernel{Exec: e, Main: rec.main, Tail: rec.tail, Unpack: rec.unpack}
			point.Kernels = append(point.Kernels, rec.k)
			recs = append(recs, rec)
		}
		for i := range recs { // Acts has stopped growing
			recs[i].act = &point.Acts[i]
		}
		var next atomic.Int64
		job := &Job{Region: r, Point: point, M: m, Out: out, Next: &next}
		n := rapid.IntRange(1, 6).Draw(t, "workers")
		for w := range n {
			wk, err := NewWorker()
			if err != nil {
				t.Fatal(err)
			}
			wk.Acts = packed
			job.Run(wk, w, n)
			wk.Close()
		}
		for i, rec := range recs {
			blocks := (m + rec.k.MR - 1) / rec.k.MR
			if len(rec.done) != blocks*segs[i].Panels {
				t.Fatalf("segment %d: %d of %d x %d tiles were computed", i, len(rec.done), blocks, segs[i].Panels)
			}
			for tile, c := range rec.done {
				if c != 1 {
					t.Fatalf("segment %d: block and panel %v computed %d times", i, tile, c)
				}
			}
		}
	})
}

func TestGrid(t *testing.T) {
	for _, c := range []struct{ units, blocks, n, gn, gm int }{
		{100, 40, 2, 2, 1}, {3, 40, 2, 1, 2}, {1, 8, 4, 1, 4}, {24, 43, 16, 8, 2}, {5, 1, 8, 8, 1}, {1, 1, 1, 1, 1},
	} {
		if gn, gm := grid(c.units, c.blocks, c.n); gn != c.gn || gm != c.gm {
			t.Errorf("%d panels, %d row blocks, %d workers: %d x %d, want %d x %d", c.units, c.blocks, c.n, gn, gm, c.gn, c.gm)
		}
	}
}

// BenchmarkShares is what handing out tiles costs one of many workers, where there is next to no work.
func BenchmarkShares(b *testing.B) {
	block, err := mem.New(64<<20, false)
	if err != nil {
		b.Fatal(err)
	}
	defer block.Free()
	nop := func(unsafe.Pointer) {}
	k := &exec.Kernel{Exec: kernel.Exec{MR: 4, Streams: 1}, Main: nop, Tail: nop}
	point := &Point{Acts: []Act{{Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 4}, K: 64}}}
	var segs []*weights.Tensor
	for _, n := range []int{2048, 1024, 1024} {
		w, err := weights.NewTensor(model.Segment{Role: "x", Parts: []model.Part{{Role: "x", Rows: n}},
			Format: kernel.FormatQ4_0, N: n, K: 64}, kernel.Layout{Lanes: 16, Cols: 1})
		if err != nil {
			b.Fatal(err)
		}
		w.Place(block)
		segs, point.Kernels, point.ActOf = append(segs, w), append(point.Kernels, k), append(point.ActOf, 0)
	}
	r := NewRegion("x", 0, segs)
	var next atomic.Int64
	j := &Job{Region: r, Point: point, M: 4, Out: mem.Addr(block.Take(16 * r.Stride)), Next: &next}
	wk, err := NewWorker()
	if err != nil {
		b.Fatal(err)
	}
	defer wk.Close()
	wk.Acts = []Packed{point.Acts[0].At(mem.Addr(block.Take(point.Acts[0].Size(4))), 4)}
	for _, n := range []int{2, 16, 64, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				next.Store(0)
				j.Run(wk, 0, n)
			}
		})
	}
}
