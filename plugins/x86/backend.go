package x86

import (
	"context"
	"fmt"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// Code is what a generator makes: machine code, its entries and how to drive it.
type Code struct {
	Bytes   []byte
	Entries map[string]int
	Exec    kernel.Exec
}

// generator emits one op. Both functions wrap kernel.ErrUnsupported for a problem out of reach.
type generator struct {
	space func(isa ISA, p kernel.Problem) (kernel.Space, error)
	emit  func(isa ISA, p kernel.Problem, c kernel.Config) (Code, error)
}

// generators holds every op; each file that implements one registers it in init.
var generators = map[kernel.Op]generator{}

// Backend is a kernel.Backend for one ISA. ID names it in artifact keys.
type Backend struct {
	ISA ISA
	ID  kernel.BackendID
	Doc string
}

var _ kernel.Backend = Backend{}

// Manifest names the ISA's features as requirements.
func (b Backend) Manifest(context.Context) (kernel.Manifest, error) {
	m := kernel.Manifest{Name: b.ID.Name, Version: "1", Doc: b.Doc, Arch: "amd64", Requires: b.ISA.Features}
	for op := range generators {
		m.Ops = append(m.Ops, op)
	}
	slices.Sort(m.Ops)
	return m, nil
}

// Space declares the parameters of a problem.
func (b Backend) Space(_ context.Context, host kernel.Features, p kernel.Problem) (kernel.Space, error) {
	g, err := b.generator(host, p)
	if err != nil {
		return kernel.Space{}, err
	}
	isa := b.ISA
	isa.L2 = int(host.Cache(2) >> 10)
	return g.space(isa, p)
}

// Emit generates the code of a configuration that Space allows.
func (b Backend) Emit(_ context.Context, host kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	g, err := b.generator(host, p)
	if err != nil {
		return nil, err
	}
	space, err := g.space(b.ISA, p)
	if err != nil {
		return nil, err
	}
	if err := space.Check(c); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", b.ID.Name, p, err)
	}
	code, err := g.emit(b.ISA, p, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %s with %s: %w", b.ID.Name, p, c, err)
	}
	return &kernel.Artifact{
		Key: kernel.ArtifactKey{Problem: p, Config: c.Clone(), LayoutVersion: kernel.LayoutVersion,
			ISA: b.ISA.Features, ABI: kernel.ABILeaf, Backend: b.ID},
		Kind: kernel.KindCode, Code: code.Bytes, Entries: code.Entries, Exec: code.Exec,
	}, nil
}

func (b Backend) generator(host kernel.Features, p kernel.Problem) (generator, error) {
	if missing := b.ISA.Supported(host); len(missing) > 0 {
		return generator{}, fmt.Errorf("%w: %s needs %v", kernel.ErrUnsupported, b.ID.Name, missing)
	}
	g, ok := generators[p.Op]
	if !ok {
		return generator{}, fmt.Errorf("%w: %s has no op %q", kernel.ErrUnsupported, b.ID.Name, p.Op)
	}
	return g, nil
}
