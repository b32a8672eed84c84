package engine

import (
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
)

// tileRope is what all calls of OpRope for tile t have in common.
func (e *Engine) tileRope(t int) kernel.RopeRowsArgs {
	st, a := &e.step, &e.step.attn
	first := t * a.tokens
	cos, sin, turn := st.ropes[a.l.rope].At(a.pos + first)
	return kernel.RopeRowsArgs{Rows: int64(min(a.tokens, a.m-first)), XStride: int64(a.stride), TurnStride: int64(turn),
		RopeArgs: kernel.RopeArgs{X: at(st.out, first*a.stride), Cos: cos, Sin: sin, Eps: unsafe.Pointer(&st.consts.eps),
			Scale: unsafe.Pointer(&st.consts.one), Heads: 1}}
}

// rotateQueries puts the queries of KV head h of the tokens of tile t into the worker's tile.
func (e *Engine) rotateQueries(w *worker, t, h int) {
	st, s := &e.step, e.Model.Spec
	a := &st.attn
	l, g, head := a.l, s.Group(), 4*s.HeadDim
	start := e.clock()
	args := e.tileRope(t)
	args.X, args.Bias, args.W = unsafe.Add(args.X, 4*l.q+h*g*head), offset(l.qBias, h*g*head), l.qNorm
	args.Scale, args.Heads = unsafe.Pointer(&st.consts.queryScale), int64(g)
	args.Out, args.RowStride, args.HeadStride, args.ElemStride = mem.Addr(w.q), int64(4*g), 4, int64(4*a.rows)
	w.ropeRows(l.qRope, args)
	if w == st.workers[0] {
		a.tRope += e.clock() - start
	}
}

// storeTile rotates the keys of head h of the tokens of tile t, and stores them and the values.
func (e *Engine) storeTile(w *worker, t, h int) {
	s, a := e.Model.Spec, &e.step.attn
	l, head, elem := a.l, 4*s.HeadDim, a.cache.Elem.Bytes()
	args, tokens, pos := e.tileRope(t), min(a.tokens, a.m-t*a.tokens), a.pos+t*a.tokens
	row := args.X

	args.X, args.Bias = unsafe.Add(row, 4*l.v+h*head), offset(l.vBias, h*head)
	args.Out, args.RowStride, args.ElemStride = a.cache.V(a.layer, h, pos), int64(s.HeadDim*elem), int64(elem)
	w.ropeRows(l.vR, args)

	args.X, args.Bias, args.W = unsafe.Add(row, 4*l.k+h*head), offset(l.kBias, h*head), l.kNorm
	args.RowStride, args.HeadStride, args.ElemStride = int64(elem), int64(elem), int64(a.cache.KStride())
	for tokens > 0 { // keys of one block at a time
		n := min(tokens, kernel.KVBlock-pos%kernel.KVBlock)
		args.Out, args.Rows = a.cache.K(a.layer, h, pos), int64(n)
		w.ropeRows(l.kRope, args)
		args.X = unsafe.Add(args.X, n*a.stride)
		args.Cos, args.Sin = unsafe.Add(args.Cos, n*int(args.TurnStride)), unsafe.Add(args.Sin, n*int(args.TurnStride))
		tokens, pos = tokens-n, pos+n
	}
}

// ropeRows runs an OpRope over tokens, in one call if the kernel can.
func (w *worker) ropeRows(k *exec.Kernel, args kernel.RopeRowsArgs) {
	*w.rope = args
	if k.Rows != nil {
		w.rope.Tmp = mem.Addr(w.ropeTmp)
		k.Rows(unsafe.Pointer(w.rope))
		k.Count(1, 0)
		return
	}
	for range args.Rows {
		k.Main(unsafe.Pointer(&w.rope.RopeArgs))
		w.rope.X, w.rope.Out = unsafe.Add(w.rope.X, args.XStride), unsafe.Add(w.rope.Out, args.RowStride)
		w.rope.Cos, w.rope.Sin = unsafe.Add(w.rope.Cos, args.TurnStride), unsafe.Add(w.rope.Sin, args.TurnStride)
	}
	k.Count(args.Rows, 0)
}

func offset(p unsafe.Pointer, n int) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, n)
}
