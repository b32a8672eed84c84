package engine

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/kv"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// Attention of several tokens works on tiles of about tileTarget query rows, so that a block of
// keys, once loaded, serves them all. Splits of a single token's positions are at least minSplit
// blocks long.
const (
	tileTarget = 32
	minSplit   = 16
)

// tileTokens is the number of tokens of a tile; each brings Group rows.
func tileTokens(s *model.Spec) int { return max(1, tileTarget/s.Group()) }

func tileRows(s *model.Spec) int { return tileTokens(s) * s.Group() }

// attnLayer is what attention of one layer needs.
type attnLayer struct {
	one, many        *exec.Kernel // of one token, of a tile
	q, k, v, g       int          // columns of the qkv region's output
	window           int
	rope             int
	qBias, kBias     unsafe.Pointer
	vBias            unsafe.Pointer
	qNorm, kNorm     unsafe.Pointer
	qRope, kRope, vR *exec.Kernel
}

// attnKernels looks up the kernels of a layer's attention and the columns it reads.
func (e *Engine) attnKernels(ctx context.Context, layer int) error {
	s, l := e.Model.Spec, &e.layers[layer]
	sl := s.Layers[layer]
	a := attnLayer{window: sl.Window, rope: sl.Rope,
		qBias: l.vec[model.VecQBias], kBias: l.vec[model.VecKBias], vBias: l.vec[model.VecVBias],
		qNorm: l.vec[model.VecQNorm], kNorm: l.vec[model.VecKNorm]}
	elem := e.opt.Knobs.KV
	rope := kernel.Problem{Op: kernel.OpRope, Dim: s.HeadDim, Rot: s.Ropes[sl.Rope].Rot(), Norm: s.QKNorm, Elem: kernel.ElemF32}
	key := rope
	key.Elem = elem
	attn := kernel.Problem{Op: kernel.OpAttn, Dim: s.HeadDim, M: s.Group(), Elem: elem}
	tile := attn
	tile.M = tileRows(s)
	for _, f := range []struct {
		k **exec.Kernel
		p kernel.Problem
	}{{&a.qRope, rope}, {&a.kRope, key}, {&a.vR, kernel.Problem{Op: kernel.OpRope, Dim: s.HeadDim, Elem: elem}},
		{&a.one, attn}, {&a.many, tile}} {
		var err error
		if *f.k, err = e.lib.Kernel(ctx, f.p); err != nil {
			return err
		}
	}
	l.attn = a
	e.attnColumns(layer)
	return nil
}

// attnColumns finds q, k, v and the gates in the output of the layer's qkv region.
func (e *Engine) attnColumns(layer int) {
	l := &e.layers[layer]
	r := l.regions[regQKV]
	l.attn.q, l.attn.k, l.attn.v, l.attn.g = r.Column(model.RoleQ), r.Column(model.RoleK), r.Column(model.RoleV), r.Column(model.RoleG)
}

// attnRun is the attention under way.
type attnRun struct {
	l      *attnLayer
	layer  int
	cache  *kv.Cache
	pos, m int
	stride int // bytes between rows of the qkv output
	tokens int // of a tile
	rows   int // of a tile
	tiles  int
	splits int
	kernel *exec.Kernel
	next   atomic.Int64
	tRope  int64 // nanoseconds that the leader spent rotating in the region of attention, if observed

	block *mem.Block   // partial states of splits
	parts []kv.Partial // [head][split]
	left  []atomic.Int32
}

func (a *attnRun) close() { a.block.Free() }

// attention rotates and stores what the qkv region made of m rows, and attends: out to mixed.
func (e *Engine) attention(s *Session, layer, m int) error {
	st, l := &e.step, &e.layers[layer]
	a := &st.attn
	n := e.threads(m)
	a.l, a.layer, a.cache, a.pos, a.m = &l.attn, layer, s.cache, s.pos, m
	a.stride = l.regions[regQKV].Stride
	a.tokens, a.rows, a.kernel = 1, e.Model.Spec.Group(), l.attn.one
	if m > 1 {
		a.tokens, a.rows, a.kernel = tileTokens(e.Model.Spec), tileRows(e.Model.Spec), l.attn.many
	}
	a.tiles = (m + a.tokens - 1) / a.tokens
	a.splits = 1
	if m == 1 {
		if err := a.split(e, n); err != nil {
			return err
		}
	}
	a.next.Store(0)
	a.tRope = 0
	start := e.clock()
	mid, done := start, start
	run := st.attnFused
	if m > 1 || a.splits > 1 {
		if err := e.fork(m, st.storeRows); err != nil {
			return err
		}
		mid, done, run = e.clock(), e.pool.Done, st.attnItems
	}
	err := e.fork(m, run)
	mid += a.tRope
	e.observe(Event{Op: "rope", Layer: layer, M: m, Start: start, Done: done + a.tRope, End: mid})
	e.observe(Event{Op: "attn", Layer: layer, M: m, Start: mid, Done: e.pool.Done, End: e.clock()})
	return err
}

// split decides into how many ranges of positions one token's attention is cut, so that n workers
// have about equal shares.
func (a *attnRun) split(e *Engine, n int) error {
	s := e.Model.Spec
	t := kv.Tile{Pos: a.pos, Tokens: 1, Window: a.l.window}
	first, last := t.Blocks()
	want := n / gcd(n, s.KVHeads)
	a.splits = max(1, min(want, (last-first)/minSplit))
	if a.splits == 1 || len(a.parts) >= s.KVHeads*a.splits {
		return nil
	}
	b, err := mem.New(s.KVHeads*want*kv.PartialSize(s.Group(), s.HeadDim), false)
	if err != nil {
		return err
	}
	a.block.Free()
	a.block, a.parts, a.left = b, nil, make([]atomic.Int32, s.KVHeads)
	for range s.KVHeads * want {
		a.parts = append(a.parts, kv.NewPartial(b, s.Group(), s.HeadDim))
	}
	return nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (st *stepper) bindAttention(e *Engine) {
	a := &st.attn
	heads := e.Model.Spec.KVHeads
	st.storeRows = func(w int) {
		n, items := e.threads(a.m), a.tiles*heads
		for i := items * w / n; i < items*(w+1)/n; i++ {
			e.storeTile(st.workers[w], i/heads, i%heads)
		}
		if w == 0 {
			for h := range a.left {
				a.left[h].Store(int32(a.splits))
			}
		}
	}
	st.attnFused = func(w int) {
		for h := int(a.next.Add(1)) - 1; h < heads; h = int(a.next.Add(1)) - 1 {
			start := e.clock()
			e.storeTile(st.workers[w], 0, h)
			if w == 0 {
				a.tRope += e.clock() - start
			}
			e.attendTile(st.workers[w], 0, h)
		}
	}
	st.attnItems = func(w int) {
		items := a.tiles * heads * a.splits
		for i := int(a.next.Add(1)) - 1; i < items; i = int(a.next.Add(1)) - 1 {
			if a.splits > 1 {
				e.attendSplit(st.workers[w], i/a.splits, i%a.splits)
			} else { // the last tile sees most: it goes first
				e.attendTile(st.workers[w], a.tiles-1-i/heads, i%heads)
			}
		}
	}
}

// tileOf is tile t of KV head h, its queries in the worker's tile.
func (e *Engine) tileOf(w *worker, t, h int) kv.Tile {
	a, s := &e.step.attn, e.Model.Spec
	tile := kv.Tile{Layer: a.layer, Head: h, Pos: a.pos + t*a.tokens, Tokens: min(a.tokens, a.m-t*a.tokens),
		Rows: a.rows, Group: s.Group(), Window: a.l.window, Q: mem.Addr(w.q)}
	tile.FirstB, tile.LastB = tile.Blocks()
	return tile
}

// attendTile computes tile t of KV head h.
func (e *Engine) attendTile(w *worker, t, h int) {
	a := &e.step.attn
	e.rotateQueries(w, t, h)
	tile := e.tileOf(w, t, h)
	p := w.state.First(tile.Rows)
	p.Clear()
	w.attend.Run(a.cache, a.kernel, &tile, p)
	e.finish(w, &tile, t*a.tokens, p)
}

// attendSplit computes one range of the positions of KV head h; whoever ends last merges all.
func (e *Engine) attendSplit(w *worker, h, split int) {
	a := &e.step.attn
	e.rotateQueries(w, 0, h)
	tile := e.tileOf(w, 0, h)
	first, n := tile.FirstB, tile.LastB-tile.FirstB
	tile.FirstB, tile.LastB = first+n*split/a.splits, first+n*(split+1)/a.splits
	parts := a.parts[h*a.splits : (h+1)*a.splits]
	parts[split].Clear()
	w.attend.Run(a.cache, a.kernel, &tile, parts[split])
	if a.left[h].Add(-1) > 0 {
		return
	}
	for _, p := range parts[1:] {
		parts[0].Merge(p)
	}
	e.finish(w, &tile, 0, parts[0])
}

// finish divides by the sums, applies the head gate, and writes the rows of a tile.
func (e *Engine) finish(w *worker, t *kv.Tile, row int, p kv.Partial) {
	st, s := &e.step, e.Model.Spec
	a := &st.attn
	for r := range t.Tokens * t.Group {
		head := t.Head*t.Group + r%t.Group
		tok := row + r/t.Group
		f := 1 / p.Sum[r]
		if s.HeadGate != model.HeadGateNone {
			f *= s.HeadGate.Apply(*(*float32)(at(st.out, tok*a.stride+4*(a.l.g+head))))
		}
		*w.factor = f
		*w.scale = kernel.ScaleArgs{X: unsafe.Pointer(&p.Acc[r*s.HeadDim]), F: unsafe.Pointer(w.factor),
			Out: at(st.mixed, 4*(tok*s.QRows()+head*s.HeadDim)), N: int64(s.HeadDim)}
		st.scale.Main(unsafe.Pointer(w.scale))
		st.scale.Count(1, 0)
	}
}
