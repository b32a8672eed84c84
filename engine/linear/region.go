// Package linear drives linear kernels over the packed matrices of a region: who computes which
// panels, in which order, with which activations.
package linear

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// Region is a list of row segments over the same activations. Its output row is the segments' padded
// channels one after another.
type Region struct {
	Name   model.Region
	Layer  int // -1 for the head
	K      int
	Segs   []*weights.Tensor
	Cols   []int // first output column of each segment
	Stride int   // bytes between output rows

	points map[int]*Point // by tuning point of M
}

// NewRegion lays out the output row of its segments.
func NewRegion(name model.Region, layer int, segs []*weights.Tensor) *Region {
	r := &Region{Name: name, Layer: layer, K: segs[0].K, Segs: segs, points: map[int]*Point{}}
	r.layOut()
	return r
}

func (r *Region) layOut() {
	cols := 0
	r.Cols = r.Cols[:0]
	for _, t := range r.Segs {
		r.Cols = append(r.Cols, cols)
		cols += t.PaddedN()
	}
	r.Stride = mem.Room(4 * cols)
}

// Column returns the output column where a part starts.
func (r *Region) Column(role model.Role) int {
	for i, t := range r.Segs {
		at := r.Cols[i]
		for _, p := range t.Parts {
			if p.Role == role {
				return at
			}
			at += p.Rows
		}
	}
	return -1
}

// Points returns the tuning points that were prepared.
func (r *Region) Points() map[int]*Point { return r.points }

// Bytes is the weight bytes of the region.
func (r *Region) Bytes() int {
	n := 0
	for _, t := range r.Segs {
		n += t.Bytes()
	}
	return n
}

// Replace puts another packing of segment i in place; kernels for it are looked up anew.
func (r *Region) Replace(i int, t *weights.Tensor) {
	r.Segs[i] = t
	clear(r.points)
	r.layOut()
}

// Act is one quantisation of a region's input: its coding and the kernel that makes it.
type Act struct {
	kernel.Act
	K      int
	First  *exec.Kernel // with the region's fused step
	Second *exec.Kernel // for further codings of the same input: without the addition
}

// Point is a region at one tuning point of M: a kernel for each segment, and what they read.
type Point struct {
	Kernels []*exec.Kernel
	Acts    []Act
	ActOf   []int // by segment
}

// Step is what happens to the input before it is coded.
type Step struct {
	Pre  kernel.Pre
	Gate kernel.Gate
}

// Prepare returns the kernels of the region at tuning point m, looking them up on first use.
func (r *Region) Prepare(ctx context.Context, lib *exec.Library, w model.Weights, m int, s Step) (*Point, error) {
	if p := r.points[m]; p != nil {
		return p, nil
	}
	ks := make([]*exec.Kernel, len(r.Segs))
	for i, t := range r.Segs {
		k, err := lib.Kernel(ctx, classOf(t).Problem(w, m, t.Layout))
		if err != nil {
			return nil, err
		}
		ks[i] = k
	}
	return r.set(ctx, lib, m, s, ks)
}

// Use makes kernel k serve segment i at tuning point m. The layout must be the segment's.
func (r *Region) Use(ctx context.Context, lib *exec.Library, w model.Weights, m int, s Step, i int, k *exec.Kernel) error {
	t := r.Segs[i]
	if have, want := k.Artifact.Key.Problem, classOf(t).Problem(w, m, t.Layout); have != want {
		return fmt.Errorf("%w: it is for %s, layer %d needs %s", kernel.ErrArtifact, have, r.Layer, want)
	}
	p, err := r.Prepare(ctx, lib, w, m, s)
	if err != nil {
		return err
	}
	ks := append([]*exec.Kernel(nil), p.Kernels...)
	ks[i] = k
	_, err = r.set(ctx, lib, m, s, ks)
	return err
}

func (r *Region) set(ctx context.Context, lib *exec.Library, m int, s Step, ks []*exec.Kernel) (*Point, error) {
	p := &Point{Kernels: ks, ActOf: make([]int, len(ks))}
	for i, k := range ks {
		prob := k.Artifact.Key.Problem
		a := kernel.Act{Arith: prob.Arith, Group: r.Segs[i].Format.Group, MR: k.MR}
		j := 0
		for j < len(p.Acts) && p.Acts[j].Act != a {
			j++
		}
		p.ActOf[i] = j
		if j < len(p.Acts) {
			continue
		}
		act, err := newAct(ctx, lib, a, r.K, s)
		if err != nil {
			return nil, err
		}
		p.Acts = append(p.Acts, act)
	}
	r.points[m] = p
	return p, nil
}

func newAct(ctx context.Context, lib *exec.Library, a kernel.Act, k int, s Step) (Act, error) {
	out := Act{Act: a, K: k}
	var err error
	prob := kernel.Problem{Op: kernel.OpQuant, K: k, Act: a, Pre: s.Pre, Gate: s.Gate}
	if out.First, err = lib.Kernel(ctx, prob); err != nil {
		return out, err
	}
	out.Second = out.First
	if s.Pre == kernel.PreAddNorm {
		prob.Pre = kernel.PreNorm
		out.Second, err = lib.Kernel(ctx, prob)
	}
	return out, err
}

func classOf(t *weights.Tensor) model.Class {
	return model.Class{Role: t.Role, N: t.N, K: t.K, Format: t.Format}
}

// Packed is packed activations: the memory that an Act describes, for some rows.
type Packed struct {
	A, Scale, Sum unsafe.Pointer
}

// Size is the memory of the packed activations of rows rows.
func (a Act) Size(rows int) int {
	blocks := (rows + a.MR - 1) / a.MR
	return mem.Room(blocks*a.BlockBytes(a.K)) + 2*mem.Room(blocks*a.sums())
}

// At lays packed activations of rows rows out in buf, Size(rows) bytes.
func (a Act) At(buf unsafe.Pointer, rows int) Packed {
	blocks := (rows + a.MR - 1) / a.MR
	scale := unsafe.Add(buf, mem.Room(blocks*a.BlockBytes(a.K)))
	return Packed{A: buf, Scale: scale, Sum: unsafe.Add(scale, mem.Room(blocks*a.sums()))}
}

// sums is the bytes of the scales of one block, and of its sums.
func (a Act) sums() int {
	if a.Group == 0 {
		return 0
	}
	return a.Groups(a.K) * a.MR * 4
}

// Block returns the packed activations from row block b on.
func (a Act) Block(p Packed, b int) Packed {
	return Packed{A: unsafe.Add(p.A, b*a.BlockBytes(a.K)),
		Scale: unsafe.Add(p.Scale, b*a.sums()), Sum: unsafe.Add(p.Sum, b*a.sums())}
}

// Row returns the packed activations of row m.
func (a Act) Row(p Packed, m int) Packed {
	b := a.Block(p, m/a.MR)
	r := m % a.MR * 4
	return Packed{A: unsafe.Add(b.A, r), Scale: unsafe.Add(b.Scale, r), Sum: unsafe.Add(b.Sum, r)}
}
