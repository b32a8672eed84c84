package engine

import (
	"context"
	"fmt"

	"github.com/tilewright/tilewright/engine/kv"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// headRows is how many rows of logits are computed at a time when all are asked for.
const headRows = 16

// Session is one sequence of tokens with its KV cache.
type Session struct {
	e     *Engine
	cache *kv.Cache
	pos   int
}

// NewSession starts an empty sequence. Its cache takes memory as it fills.
func (e *Engine) NewSession() (*Session, error) {
	s := e.Model.Spec
	windows := make([]int, len(s.Layers))
	for i, l := range s.Layers {
		windows[i] = l.Window
	}
	c, err := kv.New(windows, s.KVHeads, s.HeadDim, e.opt.Context, e.opt.Knobs.KV)
	if err != nil {
		return nil, err
	}
	return &Session{e: e, cache: c}, nil
}

// Len is the number of tokens in the sequence.
func (s *Session) Len() int { return s.pos }

// Close frees the cache.
func (s *Session) Close() {
	s.e.turn.Lock()
	defer s.e.turn.Unlock()
	s.cache.Close()
}

// Truncate forgets the tokens from n on. If layers with a sliding window gave up what token n would see
// (what is a thousand tokens behind it), it forgets all; Len says what is left.
func (s *Session) Truncate(n int) error {
	if n < 0 || n > s.pos {
		return fmt.Errorf("cannot truncate a sequence of %d tokens to %d", s.pos, n)
	}
	s.pos = s.cache.Rewind(n)
	return nil
}

// Repeat lengthens the sequence to n tokens by copying what the cache holds of those present, whole
// blocks of kernel.KVBlock of them. The tokens mean nothing: it is for measuring at a depth, where the
// time of a pass does not depend on them.
func (s *Session) Repeat(n int) error {
	s.e.turn.Lock()
	defer s.e.turn.Unlock()
	have := s.pos / kernel.KVBlock * kernel.KVBlock
	if have == 0 || n < s.pos || n > s.e.opt.Context {
		return fmt.Errorf("cannot repeat a sequence of %d tokens up to %d (at least %d, at most the context of %d)", s.pos, n, kernel.KVBlock, s.e.opt.Context)
	}
	s.cache.Repeat(have, n)
	s.pos = n
	return nil
}

// Reset forgets all tokens and gives the cache's memory back.
func (s *Session) Reset() {
	s.e.turn.Lock()
	defer s.e.turn.Unlock()
	s.pos = 0
	s.cache.Reset()
}

// Prefill appends tokens and returns the logits of the last. They are valid until the next pass of
// the engine. After an error, ctx's end included, the sequence is as if truncated to what it was.
func (s *Session) Prefill(ctx context.Context, ids []int) ([]float32, error) {
	var logits []float32
	err := s.append(ctx, ids, func(last bool, m int) (err error) {
		if last {
			logits, err = s.e.logits(ctx, m-1, 1, m)
		}
		return err
	})
	return logits, err
}

// Step appends one token and returns its logits, valid until the next pass of the engine.
func (s *Session) Step(ctx context.Context, id int) ([]float32, error) {
	return s.Prefill(ctx, []int{id})
}

// All appends tokens and calls f with the logits of each, in order; they are valid within f.
func (s *Session) All(ctx context.Context, ids []int, f func(i int, logits []float32)) error {
	done := 0
	return s.append(ctx, ids, func(_ bool, m int) error {
		for r := 0; r < m; r += headRows {
			n := min(headRows, m-r)
			all, err := s.e.logits(ctx, r, n, m)
			if err != nil {
				return err
			}
			stride := s.e.head.Stride / 4
			for i := range n {
				f(done, all[i*stride:][:s.e.Model.Spec.Vocab])
				done++
			}
		}
		return nil
	})
}

// append runs the layers over ids in chunks; after each it calls head, told whether it was the last
// and how many rows it had.
func (s *Session) append(ctx context.Context, ids []int, head func(last bool, m int) error) error {
	e := s.e
	e.turn.Lock()
	defer e.turn.Unlock()
	if len(ids) == 0 {
		return fmt.Errorf("no tokens given")
	}
	if s.pos+len(ids) > e.opt.Context {
		return fmt.Errorf("%w: %d tokens after %d exceed %d positions", ErrContext, len(ids), s.pos, e.opt.Context)
	}
	start := s.pos
	err := e.pool.Do(func() error {
		for len(ids) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			m := min(len(ids), e.opt.Knobs.PrefillChunk)
			if err := e.forward(ctx, s, ids[:m]); err != nil {
				return err
			}
			s.pos += m
			s.cache.Forget(s.pos)
			ids = ids[m:]
			if err := head(len(ids) == 0, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.pos = s.cache.Rewind(start)
	}
	return err
}

// forward runs the layers over the rows of ids, at the session's position; the last residual
// addition is left to the head.
func (e *Engine) forward(ctx context.Context, s *Session, ids []int) error {
	st, spec := &e.step, e.Model.Spec
	m := len(ids)
	for _, t := range st.ropes {
		t.Reach(s.pos + m)
	}
	start := e.clock()
	if err := e.embedAll(ids); err != nil {
		return err
	}
	end := e.clock()
	e.observe(Event{Op: "embed", Layer: -1, M: m, Start: start, Done: end, End: end})
	for i := range e.layers {
		l := &e.layers[i]
		qkv := e.after(i-1, m, regDown)
		qkv.norm = l.vec[model.VecAttnNorm]
		if err := e.linear(ctx, l.regions[regQKV], m, qkv, st.out); err != nil {
			return err
		}
		if err := e.attention(s, i, m); err != nil {
			return err
		}
		mixed := input{x: mem.Addr(st.mixed), stride: 4 * spec.QRows()}
		if err := e.linear(ctx, l.regions[regO], m, mixed, st.delta); err != nil {
			return err
		}
		mlp := e.after(i, m, regO)
		mlp.norm = l.vec[model.VecFFNNorm]
		if err := e.linear(ctx, l.regions[regGateUp], m, mlp, st.out); err != nil {
			return err
		}
		if err := e.linear(ctx, l.regions[regDown], m, e.gated(l), st.delta); err != nil {
			return err
		}
	}
	return nil
}

// after is the residual stream with what region reg of a layer adds to it still to be added.
func (e *Engine) after(layer, m, reg int) input {
	in := input{residual: true}
	if layer < 0 {
		return in
	}
	l := &e.layers[layer]
	in.y, in.stride = mem.Addr(e.step.delta), l.regions[reg].Stride
	if reg == regO {
		in.bias, in.post = l.vec[model.VecOutBias], l.vec[model.VecPostAttnNorm]
	} else {
		in.post = l.vec[model.VecPostFFNNorm]
	}
	return in
}

// gated is the input of the down product.
func (e *Engine) gated(l *layer) input {
	r, out := l.regions[regGateUp], e.step.out
	return input{x: at(out, 4*r.Column(model.RoleGate)), y: at(out, 4*r.Column(model.RoleUp)), stride: r.Stride}
}

// embedAll looks up the rows of a pass; one row goes to every worker's own stream.
func (e *Engine) embedAll(ids []int) error {
	st := &e.step
	st.failed.Store(nil)
	if len(ids) == 1 {
		first := mem.Floats(st.workers[0].x)
		if err := e.embed.row(ids[0], first); err != nil {
			return err
		}
		for _, w := range st.workers[1:] {
			copy(mem.Floats(w.x), first)
		}
		return nil
	}
	st.ids = ids
	if err := e.fork(len(ids), st.embedRows); err != nil {
		return err
	}
	if err := st.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// logits runs the head on n rows from row first on, of a pass of m rows. Rows lie head.Stride apart.
func (e *Engine) logits(ctx context.Context, first, n, m int) ([]float32, error) {
	st := &e.step
	in := e.after(len(e.layers)-1, m, regDown)
	in.norm, in.first = e.final, first
	in.y = offset(in.y, first*in.stride)
	if m > 1 && n == 1 {
		// The stream lies in the shared rows, the pass over one row reads the workers' own.
		h := 4 * e.Model.Spec.Hidden
		for _, w := range st.workers {
			copy(w.x, st.x[first*h:(first+1)*h])
		}
	}
	if err := e.linear(ctx, e.head, n, in, st.logits); err != nil {
		return nil, err
	}
	out := mem.Floats(st.logits)
	if n == 1 {
		return out[:e.Model.Spec.Vocab], nil
	}
	return out, nil
}
