package engine

import (
	"context"
	"unsafe"

	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
)

// input is what a region reads, row by row.
type input struct {
	residual bool           // X is the residual stream
	first    int            // row of the stream that is row 0 here
	x        unsafe.Pointer // else X
	y        unsafe.Pointer // what is added to the stream, or multiplies the gate
	stride   int            // bytes between rows of x and y
	norm     unsafe.Pointer // norm weight
	post     unsafe.Pointer // norm weight of y before it is added, nil for none
	bias     unsafe.Pointer // on y, nil for none
	hidden   int
}

// bind makes the functions that workers run, once, so that a region allocates nothing.
func (st *stepper) bind(e *Engine) {
	st.quantRows = func(w int) {
		n := e.threads(st.job.M)
		for r := st.job.M * w / n; r < st.job.M*(w+1)/n; r++ {
			st.quantRow(st.workers[w], st.shared, r, false)
		}
	}
	st.linearRows = func(w int) {
		wk := st.workers[w]
		wk.linear.Acts = st.shared
		st.job.Run(wk.linear, w, e.threads(st.job.M))
	}
	st.fusedRow = func(w int) {
		wk := st.workers[w]
		wk.linear.Acts = wk.pack(&st.job)
		st.quantRow(wk, wk.linear.Acts, 0, true)
		if w == 0 && e.opt.Observer != nil {
			st.tQuant = e.now()
		}
		st.job.Run(wk.linear, w, e.threads(1))
	}
	st.embedRows = func(w int) {
		n := e.threads(len(st.ids))
		for r := len(st.ids) * w / n; r < len(st.ids)*(w+1)/n; r++ {
			st.keep(e.embed.row(st.ids[r], st.xRow(e, r)))
		}
	}
	st.bindAttention(e)
}

// keep remembers the first error of a region.
func (st *stepper) keep(err error) {
	if err != nil {
		st.failed.CompareAndSwap(nil, &err)
	}
}

func (st *stepper) xRow(e *Engine, r int) []float32 {
	h := 4 * e.Model.Spec.Hidden
	return mem.Floats(st.x[r*h : (r+1)*h])
}

// scratch is n bytes for the kernel that the worker calls next.
func (w *worker) scratch(n int) unsafe.Pointer {
	if w.tmp == nil || n > len(w.tmp.Bytes()) {
		w.tmp.Free()
		w.tmp = mustNew(n)
	}
	return mem.Addr(w.tmp.Bytes())
}

// mustNew panics where there is no memory, which becomes the error of the region.
func mustNew(n int) *mem.Block {
	b, err := mem.New(n, false)
	if err != nil {
		panic(err)
	}
	return b
}

// pack lays out the worker's own packed activations of one row.
func (w *worker) pack(j *linear.Job) []linear.Packed {
	n := 0
	for _, a := range j.Acts {
		n += a.Size(1)
	}
	if n > w.room {
		w.acts.Free()
		w.acts, w.room = mustNew(n), n
	}
	w.packed = layPacked(w.packed, j.Acts, mem.Addr(w.acts.Bytes()), 1)
	return w.packed
}

func layPacked(dst []linear.Packed, acts []linear.Act, buf unsafe.Pointer, rows int) []linear.Packed {
	dst = dst[:0]
	for _, a := range acts {
		dst = append(dst, a.At(buf, rows))
		buf = unsafe.Add(buf, a.Size(rows))
	}
	return dst
}

// quantRow codes row r of the input in every coding that the region's kernels want.
func (st *stepper) quantRow(w *worker, packed []linear.Packed, r int, private bool) {
	in := &st.in
	a := kernel.QuantArgs{X: offset(in.x, r*in.stride), Y: offset(in.y, r*in.stride),
		W: in.norm, Eps: unsafe.Pointer(&st.consts.eps)}
	post := w.post
	if in.residual {
		a.X = mem.Addr(w.x)
		if !private {
			a.X = at(st.x, (in.first+r)*4*in.hidden)
			if in.post != nil {
				post = st.post[r*4*in.hidden : (r+1)*4*in.hidden]
			}
		}
		a.Y = st.addend(w, a.Y, post)
	}
	for i := range st.job.Acts {
		act := &st.job.Acts[i]
		k := act.First
		if i > 0 {
			k = act.Second
		}
		p := act.Row(packed[i], r)
		a.A, a.Scale, a.Sum, a.Tmp = p.A, p.Scale, p.Sum, w.scratch(k.ScratchBytes)
		*w.quant = a
		k.Main(unsafe.Pointer(w.quant))
		k.Count(1, 0)
	}
}

// addend is what is added to the residual stream: y, with its bias, or its norm in post.
func (st *stepper) addend(w *worker, y unsafe.Pointer, post []byte) unsafe.Pointer {
	in := &st.in
	if in.bias == nil && in.post == nil || in.y == nil {
		return y
	}
	if in.bias != nil {
		dst, b := mem.Floats(w.post), unsafe.Slice((*float32)(in.bias), in.hidden)
		for i, v := range unsafe.Slice((*float32)(y), in.hidden) {
			dst[i] = v + b[i]
		}
		y = mem.Addr(w.post)
	}
	if in.post == nil {
		return y
	}
	*w.quant = kernel.QuantArgs{X: y, W: in.post, A: mem.Addr(post),
		Eps: unsafe.Pointer(&st.consts.eps), Tmp: w.scratch(st.post1.ScratchBytes)}
	st.post1.Main(unsafe.Pointer(w.quant))
	return mem.Addr(post)
}

// linear runs a region on m rows of its input, to out.
func (e *Engine) linear(ctx context.Context, r *linear.Region, m int, in input, out []byte) error {
	st := &e.step
	err := e.setJob(ctx, r, m, in, out)
	if err != nil {
		return err
	}
	start := e.clock()
	if m == 1 {
		err = e.fork(1, st.fusedRow)
		e.observe(Event{Op: "quant", For: string(r.Name), Layer: r.Layer, M: m, Start: start, Done: st.tQuant, End: st.tQuant})
		e.observe(Event{Op: string(r.Name), Layer: r.Layer, M: m, Start: st.tQuant, Done: e.pool.Done, End: e.clock()})
		return err
	}
	if err := st.share(m); err != nil {
		return err
	}
	if err := e.fork(m, st.quantRows); err != nil {
		return err
	}
	mid := e.clock()
	e.observe(Event{Op: "quant", For: string(r.Name), Layer: r.Layer, M: m, Start: start, Done: e.pool.Done, End: mid})
	err = e.fork(m, st.linearRows)
	e.observe(Event{Op: string(r.Name), Layer: r.Layer, M: m, Start: mid, Done: e.pool.Done, End: e.clock()})
	return err
}

// setJob makes a region on m rows the one under way.
func (e *Engine) setJob(ctx context.Context, r *linear.Region, m int, in input, out []byte) error {
	st := &e.step
	p, err := e.prepared(ctx, r, e.point(m))
	if err != nil {
		return err
	}
	in.hidden = e.Model.Spec.Hidden
	st.in = in
	st.job.Region, st.job.Point, st.job.M, st.job.Out, st.job.Next = r, p, m, mem.Addr(out), &st.next
	st.next.Store(0)
	return nil
}

// share lays out the packed activations of m rows, which all workers read.
func (st *stepper) share(m int) error {
	n := 0
	for _, a := range st.job.Acts {
		n += a.Size(m)
	}
	if st.acts == nil || n > len(st.acts.Bytes()) {
		b, err := mem.New(n, false)
		if err != nil {
			return err
		}
		st.acts.Free()
		st.acts = b
	}
	st.shared = layPacked(st.shared, st.job.Acts, mem.Addr(st.acts.Bytes()), m)
	return nil
}

func (e *Engine) clock() int64 {
	if e.opt.Observer == nil {
		return 0
	}
	return e.now()
}

func (e *Engine) observe(v Event) {
	if e.opt.Observer != nil {
		e.opt.Observer.Region(v)
	}
}

// Places of the regions of a layer, in the order of model.LayerRegions.
const (
	regQKV = iota
	regO
	regGateUp
	regDown
)
