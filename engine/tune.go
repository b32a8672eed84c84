package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// segmentID names a packed matrix: a segment of a region.
type segmentID struct {
	regionID
	index int
}

// SetLinear makes an artifact serve the matrices of a class in one layer (-1: the head) for the rows
// of tuning point m. The artifact must be for the class's problem in its present layout.
func (e *Engine) SetLinear(ctx context.Context, layer int, c model.Class, m int, a *kernel.Artifact) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	r, i, err := e.find(layer, c)
	if err != nil {
		return err
	}
	k, err := e.lib.Bind(a)
	if err != nil {
		return err
	}
	if k.MR > maxMR {
		return fmt.Errorf("%w: a linear kernel of %d rows, at most %d", kernel.ErrArtifact, k.MR, maxMR)
	}
	return r.Use(ctx, e.lib, e.opt.Weights, m, e.stepOf(r), i, k)
}

// Layout is the present layout of a class in a layer.
func (e *Engine) Layout(layer int, c model.Class) (kernel.Layout, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	r, i, err := e.find(layer, c)
	if err != nil {
		return kernel.Layout{}, err
	}
	return r.Segs[i].Layout, nil
}

// Repack brings the matrix of a class in one layer into a layout, in memory of its own: also if it
// has that layout, unless it has such memory already, so that layouts which are compared lie alike.
// All tuning points of its region go back to the plan's kernels.
func (e *Engine) Repack(ctx context.Context, layer int, c model.Class, l kernel.Layout) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	r, i, err := e.find(layer, c)
	if err != nil {
		return err
	}
	old := r.Segs[i]
	if old.Layout == l && e.repacks[segmentID{regionID{r.Name, r.Layer}, i}] != nil {
		return nil
	}
	if l.NR() > maxPanel {
		return fmt.Errorf("layout %s has panels of %d channels, at most %d", l, l.NR(), maxPanel)
	}
	t, err := weights.NewTensor(old.Segment, l)
	if err != nil {
		return err
	}
	b, err := mem.New(t.Room(), e.opt.Knobs.HugePages)
	if err != nil {
		return err
	}
	t.Place(b)
	j, err := e.fillJob(ctx, layer, []*weights.Tensor{t})
	if err == nil {
		again := j.fills[0]
		j.fills[0] = func(p *weights.Packer, lo, hi int) error {
			if t.CopyRuns(old, lo, hi) {
				return nil
			}
			return again(p, lo, hi)
		}
		err = e.pool.Do(func() error { return e.runFill(ctx, []fillJob{j}, e.opt.Knobs.RepackRows) })
	}
	if err != nil {
		b.Free()
		return err
	}
	e.replace(r, i, t, b)
	return nil
}

// replace puts a repacked tensor in place and frees the memory of the one before.
func (e *Engine) replace(r *linear.Region, i int, t *weights.Tensor, b *mem.Block) {
	id := segmentID{regionID{r.Name, r.Layer}, i}
	if before := e.repacks[id]; before != nil {
		before.Free()
	} else {
		mem.DropPages(r.Segs[i].Codes)
		mem.DropPages(r.Segs[i].Scales)
	}
	e.repacks[id] = b
	r.Replace(i, t)
	if r.Name == model.RegionQKV {
		e.attnColumns(r.Layer)
	}
}

// SetKnobs changes, while nothing runs, the knobs that need no reload: threads (no more than the
// engine was loaded with), PanelMinM and PrefillChunk (no more than it was loaded with).
func (e *Engine) SetKnobs(k kernel.Knobs) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	have := e.opt.Knobs
	fixed, want := have, k
	for _, x := range []*kernel.Knobs{&fixed, &want} {
		x.ThreadsDecode, x.ThreadsPrefill, x.PanelMinM, x.PrefillChunk = 0, 0, 0, 0
	}
	n := e.pool.Workers()
	switch {
	case fixed != want:
		return fmt.Errorf("knobs %+v need a reload of the engine that runs %+v", k, have)
	case k.ThreadsDecode < 1 || k.ThreadsPrefill < 1 || k.ThreadsDecode > n || k.ThreadsPrefill > n:
		return fmt.Errorf("%d and %d threads: the engine was loaded with %d", k.ThreadsDecode, k.ThreadsPrefill, n)
	case k.PrefillChunk < 1 || k.PrefillChunk > e.step.chunk || k.PanelMinM < 1:
		return fmt.Errorf("a prefill chunk of %d and panels from %d rows: want 1 to %d, and at least 1", k.PrefillChunk, k.PanelMinM, e.step.chunk)
	}
	e.opt.Knobs = k
	return nil
}

// TimePack packs the matrices of a layer again from the checkpoint into scratch memory, rows source
// rows at a time, and returns the seconds. A preset has nothing to pack.
func (e *Engine) TimePack(ctx context.Context, layer, rows int) (float64, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	if e.Model.Checkpoint == nil || layer < 0 || layer >= len(e.layers) || rows < 1 {
		return 0, fmt.Errorf("nothing to pack: layer %d, %d rows at a time", layer, rows)
	}
	var jobs []fillJob
	room := 0
	var copies []*weights.Tensor
	for _, r := range e.layers[layer].regions {
		var segs []*weights.Tensor
		for _, t := range r.Segs {
			c, err := weights.NewTensor(t.Segment, t.Layout)
			if err != nil {
				return 0, err
			}
			room += c.Room()
			segs, copies = append(segs, c), append(copies, c)
		}
		j, err := e.fillJob(ctx, layer, segs)
		if err != nil {
			return 0, err
		}
		jobs = append(jobs, j)
	}
	b, err := mem.New(room, e.opt.Knobs.HugePages)
	if err != nil {
		return 0, err
	}
	defer b.Free()
	for _, c := range copies {
		c.Place(b)
	}
	var seconds float64
	err = e.pool.Do(func() error {
		start := time.Now()
		err := e.runFill(ctx, jobs, rows)
		seconds = time.Since(start).Seconds()
		return err
	})
	return seconds, err
}

// find locates the segment of a class in a layer.
func (e *Engine) find(layer int, c model.Class) (*linear.Region, int, error) {
	var in []*linear.Region
	if layer == -1 {
		in = []*linear.Region{e.head}
	} else if layer >= 0 && layer < len(e.layers) {
		in = e.layers[layer].regions[:]
	}
	for _, r := range in {
		for i, t := range r.Segs {
			if c.Same(model.Class{Role: t.Role, N: t.N, K: t.K, Format: t.Format}) {
				return r, i, nil
			}
		}
	}
	return nil, 0, fmt.Errorf("layer %d has no matrix %s", layer, c)
}
