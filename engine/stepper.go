package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/kv"
	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// maxMR is the largest row block of a linear kernel; buffers have that many rows to spare.
const maxMR = 64

// stepper holds what a pass works with: buffers for one chunk of rows, the workers' own memory, and
// the region under way. A pass over one row keeps the residual stream and the packed activations in
// each worker, which computes them for itself: that costs less than a barrier.
type stepper struct {
	rows    int // capacity
	chunk   int // tokens of a pass at most
	block   *mem.Block
	x       []byte // f32 [rows][hidden], the residual stream
	out     []byte // output of qkv and gate_up
	delta   []byte // output of o and down
	mixed   []byte // f32 [rows][heads*dim], output of attention
	logits  []byte
	post    []byte // f32 [rows][hidden], normalised delta
	acts    *mem.Block
	consts  *consts
	workers []*worker
	ropes   []*kv.RopeTable
	scale   *exec.Kernel // OpScale
	post1   *exec.Kernel // RMSNorm to f32, of models with post norms

	// The region under way.
	in     input
	job    linear.Job
	shared []linear.Packed
	next   atomic.Int64
	failed atomic.Pointer[error]
	tQuant int64

	ids  []int
	attn attnRun

	quantRows, linearRows, fusedRow, embedRows func(int)
	storeRows, attnItems, attnFused            func(int)
}

type consts struct {
	eps, queryScale, one float32
}

// worker is one worker's own memory.
type worker struct {
	linear  *linear.Worker
	attend  *kv.Attender
	block   *mem.Block
	ropeTmp []byte
	q       []byte // f32 [dim][rows], a tile of queries
	quant   *kernel.QuantArgs
	rope    *kernel.RopeRowsArgs
	scale   *kernel.ScaleArgs
	factor  *float32
	probe   *kernel.ProbeArgs
	ones    []byte // operands of OpPeak
	x       []byte // f32 [hidden], the residual stream of a pass over one row
	post    []byte
	state   kv.Partial
	packed  []linear.Packed
	acts    *mem.Block
	room    int
	tmp     *mem.Block // scratch of kernels that quantise
}

func (st *stepper) init(ctx context.Context, e *Engine) error {
	var err error
	if e.embed, err = newEmbedding(e.Model, e.head); err != nil {
		return err
	}
	if err = st.kernels(ctx, e); err != nil {
		return err
	}
	for _, r := range e.Model.Spec.Ropes {
		t, err := kv.NewRopeTable(r, e.opt.Context)
		if err != nil {
			return err
		}
		st.ropes = append(st.ropes, t)
	}
	if err = st.buffers(e); err != nil {
		return err
	}
	for range e.pool.Workers() {
		w, err := newWorker(e)
		if err != nil {
			return err
		}
		st.workers = append(st.workers, w)
	}
	st.bind(e)
	// All points now, not when a prompt of some length first asks for them: errors belong here.
	for _, m := range append([]int{e.opt.Knobs.PrefillChunk}, kernel.MPoints...) {
		if m <= e.opt.Knobs.PrefillChunk {
			if err := e.prepare(ctx, e.point(m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// kernels looks up what does not depend on M.
func (st *stepper) kernels(ctx context.Context, e *Engine) (err error) {
	if st.scale, err = e.lib.Kernel(ctx, kernel.Problem{Op: kernel.OpScale}); err != nil {
		return err
	}
	s := e.Model.Spec
	if s.PostNorms {
		st.post1, err = e.lib.Kernel(ctx, kernel.Problem{Op: kernel.OpQuant, K: s.Hidden, Pre: kernel.PreNorm,
			Act: kernel.Act{Arith: kernel.F32, MR: 1}})
		if err != nil {
			return err
		}
	}
	for i := range e.layers {
		if err := e.attnKernels(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// buffers places what a pass needs. Sizes follow from the layouts, which may change later: columns
// are padded to the widest panel that a layout can have.
func (st *stepper) buffers(e *Engine) error {
	s := e.Model.Spec
	st.chunk = e.opt.Knobs.PrefillChunk
	st.rows = max(st.chunk, headRows) + maxMR
	floats := func(cols int) int { return 4 * st.rows * cols }
	pad := func(cols, segs int) int { return floats(cols + segs*maxPanel) }
	sizes := []struct {
		buf *[]byte
		n   int
	}{
		{&st.x, floats(s.Hidden)},
		{&st.out, max(pad(s.QRows()+2*s.KVRows()+s.Heads, 4), pad(2*s.FFN, 2))},
		{&st.delta, pad(s.Hidden, 1)},
		{&st.mixed, floats(s.QRows())},
		{&st.logits, 4 * (headRows + maxMR) * (s.Vocab + maxPanel)},
	}
	if s.PostNorms {
		sizes = append(sizes, struct {
			buf *[]byte
			n   int
		}{&st.post, floats(s.Hidden)})
	}
	room := 4096
	for _, z := range sizes {
		room += mem.Room(z.n)
	}
	// Rows of gate and up lie pages apart, and columns are walked.
	b, err := mem.New(room, e.opt.Knobs.HugePages)
	if err != nil {
		return err
	}
	st.block = b
	for _, z := range sizes {
		*z.buf = b.Take(z.n)
	}
	st.consts = mem.Of[consts](b)
	*st.consts = consts{eps: s.Eps, queryScale: s.QueryScale, one: 1}
	return nil
}

// maxPanel is the widest panel of a layout, in channels.
const maxPanel = 1024

func newWorker(e *Engine) (*worker, error) {
	s := e.Model.Spec
	rows, scratch, ropeTmp := max(s.Group(), tileRows(s)), 0, 0
	for _, l := range e.layers {
		a := &l.attn
		scratch = max(scratch, a.one.ScratchBytes, a.many.ScratchBytes)
		ropeTmp = max(ropeTmp, a.qRope.ScratchBytes, a.kRope.ScratchBytes, a.vR.ScratchBytes)
	}
	b, err := mem.New(4096+probeBytes+2*mem.Room(4*s.Hidden)+kv.PartialSize(rows, s.HeadDim)+mem.Room(ropeTmp)+mem.Room(4*rows*s.HeadDim), false)
	if err != nil {
		return nil, err
	}
	w := &worker{block: b, ropeTmp: b.Take(ropeTmp), q: b.Take(4 * rows * s.HeadDim)}
	w.quant, w.rope = mem.Of[kernel.QuantArgs](b), mem.Of[kernel.RopeRowsArgs](b)
	w.scale, w.factor = mem.Of[kernel.ScaleArgs](b), mem.Of[float32](b)
	w.probe, w.ones = mem.Of[kernel.ProbeArgs](b), b.Take(probeBytes)
	for i := range w.ones {
		w.ones[i] = 1
	}
	w.x, w.post = b.Take(4*s.Hidden), b.Take(4*s.Hidden)
	w.state = kv.NewPartial(b, rows, s.HeadDim)
	if w.linear, err = linear.NewWorker(); err != nil {
		b.Free()
		return nil, err
	}
	if w.attend, err = kv.NewAttender(rows, scratch); err != nil {
		w.linear.Close()
		b.Free()
		return nil, err
	}
	return w, nil
}

func (st *stepper) close() {
	for _, w := range st.workers {
		w.linear.Close()
		w.attend.Close()
		w.block.Free()
		w.acts.Free()
		w.tmp.Free()
	}
	for _, t := range st.ropes {
		t.Close()
	}
	st.block.Free()
	st.acts.Free()
	st.attn.close()
	*st = stepper{}
}

// prepare looks up the kernels of all regions at a tuning point.
func (e *Engine) prepare(ctx context.Context, point int) error {
	for _, r := range e.regions() {
		p, err := e.prepared(ctx, r, point)
		if err != nil {
			return err
		}
		for _, k := range p.Kernels {
			if k.MR > maxMR {
				return fmt.Errorf("%w: a linear kernel of %d rows, at most %d", kernel.ErrArtifact, k.MR, maxMR)
			}
		}
	}
	return nil
}

func (e *Engine) prepared(ctx context.Context, r *linear.Region, point int) (*linear.Point, error) {
	return r.Prepare(ctx, e.lib, e.opt.Weights, point, e.stepOf(r))
}

// stepOf is what is fused before the quantisation of a region's input.
func (e *Engine) stepOf(r *linear.Region) linear.Step {
	switch r.Name {
	case model.RegionO:
		return linear.Step{Pre: kernel.PreNone}
	case model.RegionDown:
		return linear.Step{Pre: kernel.PreGLU, Gate: e.Model.Spec.Gate}
	case model.RegionQKV:
		if r.Layer == 0 {
			return linear.Step{Pre: kernel.PreNorm}
		}
	}
	return linear.Step{Pre: kernel.PreAddNorm}
}

func at(b []byte, off int) unsafe.Pointer { return unsafe.Add(mem.Addr(b), off) }
