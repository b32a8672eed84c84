// Package engine runs decoder-only language models on CPUs: it loads a checkpoint into packed
// weights, and computes logits with kernels that it is given.
//
// It knows no cache and no plugin: a Plan says which configuration serves which problem, an
// ArtifactSource supplies the code.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/pool"
	"github.com/tilewright/tilewright/kernel"
)

type (
	// Plan decides layouts and configurations.
	Plan = exec.Plan
	// ArtifactSource supplies artifacts.
	ArtifactSource = exec.ArtifactSource
	// Receipt says what an artifact did.
	Receipt = exec.Receipt
)

// Options of Load.
type Options struct {
	model.Numerics
	Context  int          // positions of a session; 0: 4096, or fewer if the model has fewer
	Knobs    kernel.Knobs // zero fields mean the default
	CPUs     []int        // to pin workers to, in order; nil: those allowed
	Plan     Plan
	Source   ArtifactSource
	Host     kernel.Features // that artifacts may use
	Observer Observer        // may be nil
}

// Observer is told of every region that was run. It is called on the thread that drives the engine
// and must be quick.
type Observer interface {
	Region(Event)
}

// Event is one run of an op over rows M. Times are nanoseconds since the engine was loaded, taken by
// the leading worker: it started, it had done its own share, and the last worker had.
type Event struct {
	Op               string // quant, qkv, rope, attn, o, gate_up, down, head, embed
	For              string // of quant: the region whose input it makes
	Layer            int    // -1 outside the layers
	M                int
	Start, Done, End int64
}

const defaultContext = 4096

// ErrContext is wrapped when a sequence does not fit the context.
var ErrContext = errors.New("context is full")

// Engine is a loaded model. Its sessions take turns: calls from several goroutines are safe and run
// one after another.
type Engine struct {
	Model *model.Model
	opt   Options
	pool  *pool.Pool
	lib   *exec.Library
	epoch time.Time
	turn  sync.Mutex // held while a pass or a change of kernels runs

	blocks  []*mem.Block // weights and vectors
	repacks map[segmentID]*mem.Block
	layers  []layer
	head    *linear.Region
	final   unsafe.Pointer // norm weight
	embed   embedding
	step    stepper
	loaded  LoadStats
	worked  Workers // since the last ResetReceipts
}

// layer is one layer, ready to run.
type layer struct {
	regions [4]*linear.Region // in the order of model.LayerRegions
	vec     map[model.Vec]unsafe.Pointer
	attn    attnLayer
}

// LoadStats says what loading did.
type LoadStats struct {
	Seconds      float64 `json:"load_s"`
	WeightsBytes int     `json:"weights_bytes"` // resident packed weights
}

// Load packs the weights of m and makes it ready to run. The engine does not close m.
func Load(ctx context.Context, m *model.Model, o Options) (*Engine, error) {
	e, err := newEngine(m, o)
	if err != nil {
		return nil, err
	}
	err = e.load(ctx)
	if err == nil {
		err = e.step.init(ctx, e)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("load %s: %w", m.Spec.Name, err)
	}
	e.loaded.Seconds = time.Since(e.epoch).Seconds()
	return e, nil
}

func newEngine(m *model.Model, o Options) (*Engine, error) {
	if err := m.Spec.Validate(); err != nil {
		return nil, err
	}
	if err := o.Numerics.Validate(); err != nil {
		return nil, err
	}
	if o.Plan == nil || o.Source == nil {
		return nil, errors.New("engine: Options need a Plan and a Source")
	}
	if o.CPUs == nil {
		cpus, err := pool.AllowedCPUs()
		if err != nil {
			return nil, err
		}
		o.CPUs = cpus
	}
	o.complete(m.Spec)
	if err := o.check(m.Spec); err != nil {
		return nil, err
	}
	k := o.Knobs
	p, err := pool.New(max(k.ThreadsDecode, k.ThreadsPrefill), o.CPUs, time.Duration(k.SpinMicros)*time.Microsecond)
	if err != nil {
		return nil, err
	}
	e := &Engine{Model: m, opt: o, pool: p, lib: exec.NewLibrary(o.Plan, o.Source, o.Host),
		epoch: time.Now(), repacks: map[segmentID]*mem.Block{}}
	if o.Observer != nil {
		p.Clock = e.now
	}
	return e, nil
}

// complete fills in what was left zero. SpinMicros and HugePages have zero values with a meaning: a
// caller that wants defaults there starts from kernel.DefaultKnobs.
func (o *Options) complete(s *model.Spec) {
	d := kernel.DefaultKnobs(len(o.CPUs))
	k := &o.Knobs
	if *k == (kernel.Knobs{}) {
		*k = d
	}
	for _, f := range []struct {
		p   *int
		def int
	}{{&k.ThreadsDecode, d.ThreadsDecode}, {&k.ThreadsPrefill, d.ThreadsPrefill},
		{&k.RepackRows, d.RepackRows}, {&k.PanelMinM, d.PanelMinM}, {&k.PrefillChunk, d.PrefillChunk},
		{&o.Context, min(defaultContext, s.Context)}} {
		if *f.p == 0 {
			*f.p = f.def
		}
	}
	if k.KV == "" {
		k.KV = d.KV
	}
	if o.Weights == model.F32 {
		k.KV = kernel.ElemF32
	}
}

func (o *Options) check(s *model.Spec) error {
	k := o.Knobs
	switch {
	case o.Context < 1 || o.Context > s.Context:
		return fmt.Errorf("a context of %d positions: %s has 1 to %d", o.Context, s.Name, s.Context)
	case k.ThreadsDecode < 1 || k.ThreadsPrefill < 1 || max(k.ThreadsDecode, k.ThreadsPrefill) > pool.MaxWorkers:
		return fmt.Errorf("%d threads for decode and %d for prefill: want 1 to %d", k.ThreadsDecode, k.ThreadsPrefill, pool.MaxWorkers)
	case k.PrefillChunk < 1 || k.PrefillChunk > 1<<16:
		return fmt.Errorf("a prefill chunk of %d tokens: want 1 to %d", k.PrefillChunk, 1<<16)
	case k.KV != kernel.ElemF32 && k.KV != kernel.ElemF16 && k.KV != kernel.ElemBF16:
		return fmt.Errorf("unknown KV type %q (f16, bf16 or f32)", k.KV)
	}
	return nil
}

// Options returns the options in effect, defaults filled in.
func (e *Engine) Options() Options { return e.opt }

// Close stops the workers and frees all memory. Sessions must not be used afterwards.
func (e *Engine) Close() {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.pool.Close()
	e.step.close()
	e.lib.Close()
	for _, b := range e.blocks {
		b.Free()
	}
	for _, b := range e.repacks {
		b.Free()
	}
	e.blocks, e.repacks = nil, nil
}

func (e *Engine) now() int64 { return int64(time.Since(e.epoch)) }

// threads is the number of workers for a pass over m rows.
func (e *Engine) threads(m int) int {
	if m == 1 {
		return e.opt.Knobs.ThreadsDecode
	}
	return e.opt.Knobs.ThreadsPrefill
}

// fork runs a region of a pass over m rows on its workers, and counts them.
func (e *Engine) fork(m int, fn func(worker int)) error {
	err := e.pool.Run(e.threads(m), fn)
	most := &e.worked.Prefill
	if m == 1 {
		most = &e.worked.Decode
	}
	*most = max(*most, e.pool.Ran)
	return err
}

// point is the tuning point of M whose kernels serve m rows.
func (e *Engine) point(m int) int {
	switch p := kernel.MPoint(m); {
	case m == 1:
		return 1
	case m >= e.opt.Knobs.PanelMinM:
		return lastPoint
	case p == lastPoint:
		return kernel.MPoints[len(kernel.MPoints)-2]
	default:
		return p
	}
}

var lastPoint = kernel.MPoints[len(kernel.MPoints)-1]
