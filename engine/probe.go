package engine

import (
	"context"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// probeBytes is the operands of OpPeak.
const probeBytes = 4096

// ProbeRead streams the engine's packed weights once through an artifact of OpStream, on n workers
// and in the pages that decode reads, and returns bytes per second. It takes as long as a decode step
// at best: interleave it with what it is compared to.
func (e *Engine) ProbeRead(a *kernel.Artifact, n int) (float64, error) {
	return e.probe(a, kernel.OpStream, n, func(k *exec.Kernel, w int) int64 {
		all := e.blocks[0].Bytes()
		unit := max(1, k.Unit)
		lo, hi := len(all)*w/n/unit*unit, len(all)*(w+1)/n/unit*unit
		step := max(unit, kernel.MaxCallBytes/unit*unit)
		p := e.step.workers[w].probe
		for at := lo; at < hi; at += step {
			*p = kernel.ProbeArgs{Buf: mem.Addr(all[at:]), Bytes: int64(min(step, hi-at))}
			k.Main(unsafe.Pointer(p))
		}
		return int64(hi - lo)
	})
}

// ProbePeak runs an artifact of OpPeak for about the given time on n workers and returns
// multiply-accumulates per second.
func (e *Engine) ProbePeak(a *kernel.Artifact, n int, d time.Duration) (float64, error) {
	return e.probe(a, kernel.OpPeak, n, func(k *exec.Kernel, w int) int64 {
		p := e.step.workers[w].probe
		var done int64
		const iters = 2048 // well under 200 us a call
		for start := time.Now(); done == 0 || time.Since(start) < d; done += iters {
			*p = kernel.ProbeArgs{Buf: mem.Addr(e.step.workers[w].ones), Iters: iters}
			k.Main(unsafe.Pointer(p))
		}
		return done * int64(k.Unit)
	})
}

// ProbeRegion returns the seconds that an empty region on n workers takes: to start the others and to
// wait for them, the least mean of a few rounds.
func (e *Engine) ProbeRegion(n int) (float64, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	const rounds, regions = 9, 1000
	best := math.Inf(1)
	err := e.pool.Do(func() error {
		for range rounds {
			start := time.Now()
			for range regions {
				if err := e.pool.Run(n, func(int) {}); err != nil {
					return err
				}
			}
			best = min(best, time.Since(start).Seconds()/regions)
		}
		return nil
	})
	return best, err
}

// ProbeLinear runs the products of all layers and of the head on m rows, and returns the seconds spent
// in them alone: what is between them in a pass is left out. Activations are quantised numbers, not
// zeros, which would cost less power.
func (e *Engine) ProbeLinear(ctx context.Context, m int) (seconds float64, err error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	if m < 1 || m > headRows {
		return 0, fmt.Errorf("products of %d rows: want 1 to %d", m, headRows)
	}
	s := e.Model.Spec
	stride := 4 * max(s.Hidden, s.FFN, s.QRows())
	b, err := mem.New(m*stride, false)
	if err != nil {
		return 0, err
	}
	defer b.Free()
	x := mem.Floats(b.Bytes())
	err = e.pool.Do(func() error {
		for _, r := range e.regions() {
			for i := range x {
				x[i] = float32(i*7919%2003)/1001 - 1
			}
			sec, err := e.timeLinear(ctx, r, m, input{x: mem.Addr(b.Bytes()), y: mem.Addr(b.Bytes()), stride: stride, norm: e.final})
			if err != nil {
				return err
			}
			seconds += sec
		}
		return nil
	})
	return seconds, err
}

// timeLinear runs a region on rows that are no part of a pass.
func (e *Engine) timeLinear(ctx context.Context, r *linear.Region, m int, in input) (float64, error) {
	st := &e.step
	out := st.out
	switch r.Name {
	case model.RegionHead:
		out = st.logits
	case model.RegionO, model.RegionDown:
		out = st.delta
	}
	if err := e.setJob(ctx, r, m, in, out); err != nil {
		return 0, err
	}
	if err := st.share(m); err != nil {
		return 0, err
	}
	n := e.threads(m)
	if err := e.pool.Run(n, st.quantRows); err != nil {
		return 0, err
	}
	start := time.Now()
	err := e.pool.Run(n, st.linearRows)
	return time.Since(start).Seconds(), err
}

// probe runs f on n workers and divides the sum of what it returns by the time of all.
func (e *Engine) probe(a *kernel.Artifact, op kernel.Op, n int, f func(k *exec.Kernel, w int) int64) (float64, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	if got := a.Key.Problem.Op; got != op {
		return 0, fmt.Errorf("%w: a probe of %s was given %s", kernel.ErrArtifact, op, got)
	}
	if n < 1 || n > e.pool.Workers() {
		return 0, fmt.Errorf("a probe on %d workers: there are %d", n, e.pool.Workers())
	}
	k, err := e.lib.Bind(a)
	if err != nil {
		return 0, err
	}
	work := make([]int64, n)
	var seconds float64
	err = e.pool.Do(func() error {
		start := time.Now()
		err := e.pool.Run(n, func(w int) { work[w] = f(k, w) })
		seconds = time.Since(start).Seconds()
		return err
	})
	var sum int64
	for _, v := range work {
		sum += v
	}
	return float64(sum) / seconds, err
}
