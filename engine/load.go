package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"unsafe"

	"github.com/tilewright/tilewright/engine/linear"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// load sizes all packed tensors, places them in one block and fills them.
func (e *Engine) load(ctx context.Context) error {
	e.layers = make([]layer, len(e.Model.Spec.Layers))
	layouts := map[model.Key]kernel.Layout{}
	room := 0
	for _, id := range e.regionIDs() {
		r, err := e.newRegion(ctx, id, layouts)
		if err != nil {
			return err
		}
		for _, t := range r.Segs {
			room += t.Room()
			e.loaded.WeightsBytes += t.Bytes()
		}
		*e.slot(id) = r
	}
	b, err := mem.New(room, e.opt.Knobs.HugePages)
	if err != nil {
		return err
	}
	e.blocks = append(e.blocks, b)
	for _, r := range e.regions() {
		for _, t := range r.Segs {
			t.Place(b)
		}
	}
	if err := e.fill(ctx); err != nil {
		return err
	}
	return e.loadVectors()
}

// regionID names a region of the model.
type regionID struct {
	name  model.Region
	layer int
}

func (e *Engine) regionIDs() []regionID {
	var out []regionID
	for i := range e.layers {
		for _, r := range model.LayerRegions {
			out = append(out, regionID{r, i})
		}
	}
	return append(out, regionID{model.RegionHead, -1})
}

func (e *Engine) slot(id regionID) **linear.Region {
	for i, r := range model.LayerRegions {
		if r == id.name {
			return &e.layers[id.layer].regions[i]
		}
	}
	return &e.head
}

// regions lists all regions in the order of a pass.
func (e *Engine) regions() []*linear.Region {
	var out []*linear.Region
	for _, id := range e.regionIDs() {
		out = append(out, *e.slot(id))
	}
	return out
}

func (e *Engine) newRegion(ctx context.Context, id regionID, layouts map[model.Key]kernel.Layout) (*linear.Region, error) {
	segs, err := e.Model.Segments(id.name, id.layer, e.opt.Numerics)
	if err != nil {
		return nil, err
	}
	var ts []*weights.Tensor
	for _, s := range segs {
		c := model.Class{Role: s.Role, N: s.N, K: s.K, Format: s.Format}
		l, ok := layouts[c.Key()]
		if !ok {
			if l, err = e.opt.Plan.Layout(ctx, c); err != nil {
				return nil, fmt.Errorf("layout of %s: %w", c, err)
			}
			layouts[c.Key()] = l
		}
		t, err := weights.NewTensor(s, l)
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return linear.NewRegion(id.name, id.layer, ts), nil
}

// fill packs every tensor: each worker the panels that it will read in a decode step, so that the
// pages lie near it.
func (e *Engine) fill(ctx context.Context) error {
	var jobs []fillJob
	for _, r := range e.regions() {
		j, err := e.fillJob(ctx, r.Layer, r.Segs)
		if err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	return e.pool.Do(func() error { return e.runFill(ctx, jobs, e.opt.Knobs.RepackRows) })
}

// fillJob is the filling of a region's tensors, one source and pack kernel for each.
type fillJob struct {
	segs  []*weights.Tensor
	fills []func(p *weights.Packer, lo, hi int) error
}

func (e *Engine) fillJob(ctx context.Context, layer int, segs []*weights.Tensor) (fillJob, error) {
	j := fillJob{segs: segs}
	for _, t := range segs {
		if e.Model.Checkpoint == nil {
			seed := seedOf(t.Role, layer)
			j.fills = append(j.fills, func(_ *weights.Packer, lo, hi int) error {
				return weights.Synthesize(t, lo, hi, seed)
			})
			continue
		}
		src, err := e.partsOf(t, layer)
		if err != nil {
			return j, err
		}
		pack, err := e.packKernels(ctx, t, src)
		if err != nil {
			return j, err
		}
		j.fills = append(j.fills, func(p *weights.Packer, lo, hi int) error {
			return p.Pack(t, lo, hi, src, pack)
		})
	}
	return j, nil
}

// packKernels returns the kernels that pack t from the stored rows of its parts, and the one that packs
// codes if it is needed: for a quantised matrix that gets another grid, for rows that no backend
// reads, for a panel of two types.
func (e *Engine) packKernels(ctx context.Context, t *weights.Tensor, src parts) (weights.Kernels, error) {
	out := weights.Kernels{}
	if t.Format.IsFloat() {
		return out, nil
	}
	get := func(b kernel.Block) error {
		k, err := e.lib.Kernel(ctx, kernel.Problem{Op: kernel.OpPack, Format: t.Format, Layout: t.Layout, Source: b})
		if err == nil {
			out[b] = k.Main
		}
		return err
	}
	for i := range t.Parts {
		b, _ := src.Blocks(i, 0)
		if err := get(b); err != nil && !errors.Is(err, kernel.ErrUnsupported) {
			return nil, err
		}
		if first, _ := src.Blocks(0, 0); b != first || out[b] == nil {
			if err := get(kernel.BlockNone); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (e *Engine) runFill(ctx context.Context, jobs []fillJob, rows int) error {
	n := e.opt.Knobs.ThreadsDecode
	errs := make([]error, n)
	err := e.pool.Run(n, func(w int) {
		p := weights.NewPacker(rows)
		defer p.Close()
		for _, j := range jobs {
			if errs[w] == nil {
				errs[w] = ctx.Err()
			}
			weights.Share(j.segs, func(int) int { return 1 }, w, n, func(i, lo, hi int) {
				if errs[w] == nil {
					errs[w] = j.fills[i](p, lo, hi)
				}
			})
		}
	})
	return errors.Join(append(errs, err)...)
}

func seedOf(role string, layer int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", role, layer)
	return h.Sum64()
}

// parts reads the parts of a tensor from the checkpoint.
type parts struct {
	mats   []model.Matrix
	format kernel.Format
}

func (p parts) Row(part, n int, dst model.Row) error { return p.mats[part].Row(n, p.format, dst) }

func (p parts) Blocks(part, n int) (kernel.Block, []byte) {
	b, row := p.mats[part].Blocks(n)
	if !b.Packs(p.format) {
		return kernel.BlockNone, nil
	}
	return b, row
}

func (e *Engine) partsOf(t *weights.Tensor, layer int) (parts, error) {
	p := parts{format: t.Format}
	for _, part := range t.Parts {
		m, err := e.Model.Checkpoint.Matrix(part.Role, layer)
		if err != nil {
			return p, err
		}
		p.mats = append(p.mats, m)
	}
	return p, nil
}

// loadVectors reads norms and biases, ones and none for a preset.
func (e *Engine) loadVectors() error {
	s := e.Model.Spec
	need := map[model.Vec]int{model.VecAttnNorm: s.Hidden, model.VecFFNNorm: s.Hidden}
	add := func(on bool, v model.Vec, n int) {
		if on {
			need[v] = n
		}
	}
	add(s.QKNorm, model.VecQNorm, s.HeadDim)
	add(s.QKNorm, model.VecKNorm, s.HeadDim)
	add(s.QKVBias, model.VecQBias, s.QRows())
	add(s.QKVBias, model.VecKBias, s.KVRows())
	add(s.QKVBias, model.VecVBias, s.KVRows())
	add(s.OutBias, model.VecOutBias, s.Hidden)
	add(s.PostNorms, model.VecPostAttnNorm, s.Hidden)
	add(s.PostNorms, model.VecPostFFNNorm, s.Hidden)
	room := mem.Room(4 * s.Hidden)
	for _, n := range need {
		room += len(e.layers) * mem.Room(4*n)
	}
	b, err := mem.New(room, false)
	if err != nil {
		return err
	}
	e.blocks = append(e.blocks, b)
	for i := range e.layers {
		e.layers[i].vec = map[model.Vec]unsafe.Pointer{}
		for v, n := range need {
			if e.layers[i].vec[v], err = e.vector(b, v, i, n); err != nil {
				return err
			}
		}
	}
	e.final, err = e.vector(b, model.VecFinalNorm, -1, s.Hidden)
	return err
}

func (e *Engine) vector(b *mem.Block, v model.Vec, layer, n int) (unsafe.Pointer, error) {
	buf := b.Take(4 * n)
	dst := mem.Floats(buf)
	if e.Model.Checkpoint == nil {
		for i := range dst {
			dst[i] = 1
		}
		return mem.Addr(buf), nil
	}
	src, err := e.Model.Checkpoint.Vector(v, layer)
	if err != nil {
		return nil, err
	}
	if len(src) != n {
		return nil, fmt.Errorf("%s of layer %d has %d values, want %d", v, layer, len(src), n)
	}
	copy(dst, src)
	return mem.Addr(buf), nil
}
