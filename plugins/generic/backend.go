// Package generic is the backend of every host: it names the portable Go kernels of kernel/ref, so
// its artifacts carry no code. It is the floor under the other backends, and the one that runs where
// executable memory is refused.
package generic

import (
	"context"
	"fmt"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Name is the backend's name.
const Name = "generic"

// spaceVersion changes when the meaning of a parameter does.
const spaceVersion = "2"

// New returns the backend; digest identifies its sources and those of kernel/ref.
func New(digest string) kernel.Backend {
	return backend{kernel.BackendID{Name: Name, Digest: digest}}
}

type backend struct{ id kernel.BackendID }

func (b backend) Manifest(context.Context) (kernel.Manifest, error) {
	return kernel.Manifest{
		Name: Name, Version: "1", Doc: "portable Go kernels: every op, format and arithmetic, on any CPU",
		Ops: []kernel.Op{kernel.OpAttn, kernel.OpLinear, kernel.OpPack, kernel.OpPeak, kernel.OpQuant,
			kernel.OpRope, kernel.OpScale, kernel.OpStream},
	}, nil
}

// Layouts are those of the amd64 backends, so that a tensor packed for one of them runs here too.
func (b backend) Layouts(_ context.Context, _ kernel.Features, f kernel.Format) ([]kernel.Layout, error) {
	l := kernel.Layout{Lanes: 16, Cols: 1}
	k := max(f.Unit(), 32)
	p := kernel.Problem{Op: kernel.OpLinear, Arith: f.Arith(kernel.A8), M: 1, N: 1, K: k, Format: f, Layout: l}
	p.Act = kernel.Act{Arith: p.Arith, Group: f.Group}
	if err := ref.Supports(p); err != nil {
		return nil, err
	}
	return []kernel.Layout{l, {Lanes: 16, Cols: 2}}, nil
}

// Space has parameters for linear problems alone; the other ops have one configuration.
func (b backend) Space(_ context.Context, _ kernel.Features, p kernel.Problem) (kernel.Space, error) {
	if err := ref.Supports(p); err != nil {
		return kernel.Space{}, err
	}
	s := kernel.Space{Version: spaceVersion}
	if p.Op != kernel.OpLinear {
		return s, nil
	}
	var rows []int64
	for mr := int64(1); mr <= 8 && mr <= max(int64(p.M), 1); mr *= 2 {
		rows = append(rows, mr)
	}
	s.Params = []kernel.Param{
		{Name: "mr", Doc: "activation rows that share the decoding of a weight", Values: rows, Default: min(4, rows[len(rows)-1])},
	}
	switch {
	case p.M == 1:
		s.Params = append(s.Params, kernel.Param{
			Name: "chunk", Doc: "panels a worker takes at a time; 0 is one static share each", Values: []int64{0, 2, 8}})
	case p.M > 8:
		s.Params = append(s.Params, kernel.Param{
			Name: "nc", Doc: "panels kept in cache while all rows pass over them; 0 is all", Values: []int64{0, 1, 4, 16}, Default: 4})
	}
	return s, nil
}

// Emit names the portable kernel of a problem and says how to drive it.
func (b backend) Emit(ctx context.Context, host kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	s, err := b.Space(ctx, host, p)
	if err != nil {
		return nil, err
	}
	if err := s.Check(c); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", Name, p, err)
	}
	a := &kernel.Artifact{
		Key: kernel.ArtifactKey{Problem: p, Config: c.Clone(), LayoutVersion: kernel.LayoutVersion,
			ABI: kernel.ABIGo, Backend: b.id},
		Kind: kernel.KindGo,
	}
	switch p.Op {
	case kernel.OpLinear:
		a.Exec = kernel.Exec{MR: int(c["mr"]), Streams: 1, NC: int(c["nc"]), Chunk: int(c["chunk"])}
	case kernel.OpStream:
		a.Exec.Unit = ref.StreamUnit
	case kernel.OpPeak:
		a.Exec.Unit = ref.PeakUnit
	}
	return a, nil
}
