package engine

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/mem"
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
