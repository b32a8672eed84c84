package linear

import (
	"sync/atomic"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// Worker is what one worker needs to drive linear kernels: argument blocks and room for unpacked
// panels. Its memory lies off the heap.
type Worker struct {
	args   *kernel.LinearArgs
	unpack *kernel.UnpackArgs
	block  *mem.Block
	panels room
	tmp    room

	Acts []Packed // what the worker's jobs read, one for each Act of the point
}

// NewWorker makes a worker.
func NewWorker() (*Worker, error) {
	b, err := mem.New(4096, false)
	if err != nil {
		return nil, err
	}
	return &Worker{block: b, args: mem.Of[kernel.LinearArgs](b), unpack: mem.Of[kernel.UnpackArgs](b)}, nil
}

// Close frees the worker's memory.
func (w *Worker) Close() {
	w.block.Free()
	w.panels.block.Free()
	w.tmp.block.Free()
}

// room is memory that grows.
type room struct{ block *mem.Block }

// reserve makes room for n bytes, whose old content is lost, and returns where they are.
func (r *room) reserve(n int, huge bool) unsafe.Pointer {
	if r.block == nil || n > len(r.block.Bytes()) {
		b, err := mem.New(n, huge)
		if err != nil {
			panic(err) // becomes the error of the region
		}
		r.block.Free()
		r.block = b
	}
	return mem.Addr(r.block.Bytes())
}

// Job is one run of a region: rows M of activations, packed once for each Act of the point and found
// through Worker.Acts, to Out.
type Job struct {
	*Region
	*Point
	M    int
	Out  unsafe.Pointer // f32 [M rounded up to MR][Stride/4]
	Next *atomic.Int64  // zero at the start; hands out chunks of panels, or tiles, to workers
}

// Run does the share of worker w of n.
func (j *Job) Run(w *Worker, i, n int) {
	if j.M == 1 {
		j.decode(w, i, n)
		return
	}
	j.prefill(w, i, n)
}

// decode streams the worker's contiguous share of all panels once. Kernels that ask for chunks get
// three quarters that way; the rest is handed out on demand.
func (j *Job) decode(w *Worker, i, n int) {
	streams := func(s int) int { return max(1, j.Kernels[s].Streams) }
	dynamic := false
	weights.Share(j.Segs, streams, i, n, func(s, lo, hi int) {
		if n > 1 && j.Kernels[s].Chunk > 0 {
			hi = fixed(lo, hi, streams(s))
			dynamic = true
		}
		j.panels(w, s, 0, lo, hi)
	})
	if dynamic {
		j.rest(w, n, streams)
	}
}

// fixed is where the part of a share ends that is not handed out on demand: three quarters of it, made up to
// whole numbers of streams, of which it is made from its start on.
func fixed(lo, hi, streams int) int {
	n := hi - lo
	return min(hi, lo+(n-n/4+streams-1)/streams*streams)
}

// rest takes chunks of the last quarter of each worker's share until none is left.
func (j *Job) rest(w *Worker, n int, streams func(int) int) {
	at, mine := int64(0), j.Next.Add(1)-1
	for i := range n {
		weights.Share(j.Segs, streams, i, n, func(s, lo, hi int) {
			chunk := j.Kernels[s].Chunk
			if chunk <= 0 {
				return
			}
			for p := fixed(lo, hi, streams(s)); p < hi; p += chunk {
				if at == mine {
					j.panels(w, s, 0, p, min(hi, p+chunk))
					mine = j.Next.Add(1) - 1
				}
				at++
			}
		})
	}
}

// prefill computes the worker's part of every segment but for the last quarter of its tiles, which are
// handed out on demand. Who computes a tile changes nothing in its result.
func (j *Job) prefill(w *Worker, i, n int) {
	for s := range j.Segs {
		p := j.cut(s, n).part(i)
		for t := range p.tiles() - p.shared(n) {
			j.tile(w, p, t)
		}
	}
	if n == 1 {
		return
	}
	at, mine := 0, int(j.Next.Add(1)-1)
	for s := range j.Segs {
		c := j.cut(s, n)
		if !c.shares(n) {
			continue
		}
		for i := range c.gn * c.gm {
			p := c.part(i)
			end := at + p.shared(n)
			for ; mine < end; mine = int(j.Next.Add(1) - 1) {
				j.tile(w, p, p.tiles()-end+mine)
			}
			at = end
		}
	}
}

// cut is how segment s is shared out: workers form a grid of gn parts of its units of panels by gm parts
// of its row blocks, in tiles of mc row blocks (0: all of a part) and nc panels.
type cut struct {
	s, gn, gm           int
	units, unit, panels int
	blocks, mc, nc      int
}

func (j *Job) cut(s, n int) cut {
	k, t := j.Kernels[s], j.Segs[s]
	c := cut{s: s, unit: max(1, k.Streams), panels: t.Panels, blocks: (j.M + k.MR - 1) / k.MR, nc: callPanels(k, t)}
	c.units = (t.Panels + c.unit - 1) / c.unit
	c.gn, c.gm = grid(c.units, c.blocks, n)
	if k.NC > 0 {
		c.nc = min(c.nc, max(c.unit, k.NC/c.unit*c.unit))
	}
	if k.MC > 0 {
		c.mc = max(1, k.MC/k.MR)
	}
	return c
}

// part is a worker's part of segment s: row blocks b0 to b1-1 of panels p0 to p1-1, in tiles of mc row
// blocks and nc panels.
type part struct{ s, b0, b1, mc, p0, p1, nc int }

// part is that of worker i, empty for workers that the grid has no place for.
func (c cut) part(i int) part {
	if i >= c.gn*c.gm {
		return part{mc: 1, nc: 1}
	}
	p := part{s: c.s, b0: c.blocks * (i / c.gn) / c.gm, b1: c.blocks * (i/c.gn + 1) / c.gm,
		p0: c.units * (i % c.gn) / c.gn * c.unit, p1: min(c.panels, c.units*(i%c.gn+1)/c.gn*c.unit), mc: c.mc, nc: c.nc}
	if p.mc == 0 {
		p.mc = max(1, p.b1-p.b0)
	}
	return p
}

// shares reports whether any part has tiles that are handed out: the largest has.
func (c cut) shares(n int) bool {
	p := part{b1: (c.blocks + c.gm - 1) / c.gm, p1: (c.units + c.gn - 1) / c.gn * c.unit, mc: c.mc, nc: c.nc}
	if p.mc == 0 {
		p.mc = p.b1
	}
	return p.shared(n) > 0
}

// columns is the number of tiles beside each other, tiles that of all, shared how many of them, the last,
// n workers hand out on demand.
func (p part) columns() int { return (p.p1 - p.p0 + p.nc - 1) / p.nc }
func (p part) tiles() int   { return (p.b1 - p.b0 + p.mc - 1) / p.mc * p.columns() }
func (p part) shared(n int) int {
	if n == 1 {
		return 0
	}
	return p.tiles() / 4
}

// grid chooses into how many parts panels and row blocks are cut for n workers: the least work of
// the busiest worker, ties to more parts of panels, since cut rows make panels be unpacked twice.
func grid(units, blocks, n int) (gn, gm int) {
	best := -1
	for m := 1; m <= n; m++ {
		c := n / m
		work := ((units + c - 1) / c) * ((blocks + m - 1) / m)
		if best < 0 || work < best {
			best, gn, gm = work, c, m
		}
	}
	return gn, gm
}

// callPanels is how many panels a call may take, so that it stays short.
func callPanels(k *exec.Kernel, t *weights.Tensor) int {
	unit := max(1, k.Streams)
	return max(1, kernel.MaxCallBytes/t.Stride()/unit) * unit
}

// tile computes tile number at of a part, unpacking its panels first if the kernel wants that.
func (j *Job) tile(w *Worker, p part, at int) {
	s, b0, p0 := p.s, p.b0+at/p.columns()*p.mc, p.p0+at%p.columns()*p.nc
	b1, p1 := min(p.b1, b0+p.mc), min(p.p1, p0+p.nc)
	k, t := j.Kernels[s], j.Segs[s]
	if !k.Panel {
		for b := b0; b < b1; b++ {
			j.panels(w, s, b, p0, p1)
		}
		return
	}
	codes, scales := t.Panel(p0)
	*w.unpack = kernel.UnpackArgs{W: codes, S: scales, Out: w.panels.reserve((p1-p0)*k.PanelStride, true), Panels: int64(p1 - p0)}
	k.Unpack(unsafe.Pointer(w.unpack))
	k.Count(0, int64(p1-p0)*int64(t.Stride()))
	for b := b0; b < b1; b++ {
		j.call(w, s, b, p0, p1)
	}
}

// panels computes row block b of panels lo to hi-1 straight from the packed weights.
func (j *Job) panels(w *Worker, s, b, lo, hi int) {
	k, t := j.Kernels[s], j.Segs[s]
	step := callPanels(k, t)
	for p := lo; p < hi; p += step {
		j.call(w, s, b, p, min(hi, p+step))
	}
	k.Count(0, int64(hi-lo)*int64(t.Stride()))
}

// call is one call of main, and calls of tail for what main's streams leave over.
func (j *Job) call(w *Worker, s, b, lo, hi int) {
	k, t := j.Kernels[s], j.Segs[s]
	act := &j.Acts[j.ActOf[s]]
	in := act.Block(w.Acts[j.ActOf[s]], b)
	codes, scales := t.Panel(lo)
	stride := t.PanelBytes
	if k.Panel {
		codes, stride = mem.Addr(w.panels.block.Bytes()), k.PanelStride
	}
	width := t.Layout.NR() * 4
	out := unsafe.Add(j.Out, b*k.MR*j.Stride+j.Cols[s]*4+lo*width)
	n := hi - lo
	if k.Streams > 1 {
		n -= n % k.Streams
	}
	var tmp unsafe.Pointer
	if k.ScratchBytes > 0 {
		tmp = w.tmp.reserve(k.ScratchBytes, false)
	}
	calls := int64(0)
	if n > 0 {
		*w.args = kernel.LinearArgs{W: codes, S: scales, A: in.A, AScale: in.Scale, ASum: in.Sum,
			Out: out, Panels: int64(n), LDC: int64(j.Stride), Tmp: tmp}
		k.Main(unsafe.Pointer(w.args))
		calls++
	}
	for ; n < hi-lo; n++ {
		*w.args = kernel.LinearArgs{W: unsafe.Add(codes, n*stride), S: unsafe.Add(scales, n*t.ScaleBytes),
			A: in.A, AScale: in.Scale, ASum: in.Sum, Out: unsafe.Add(out, n*width), Panels: 1, LDC: int64(j.Stride), Tmp: tmp}
		k.Tail(unsafe.Pointer(w.args))
		calls++
	}
	k.Count(calls, 0)
}
