package generic

import (
	"context"
	"errors"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// configs are the default of a space and every configuration one parameter away from it.
func configs(s kernel.Space) []kernel.Config {
	out := []kernel.Config{s.Default()}
	for _, p := range s.Params {
		for _, v := range p.Values {
			if c := s.Default(); c[p.Name] != v {
				c[p.Name] = v
				out = append(out, c)
			}
		}
	}
	return out
}

func problems(t *testing.T) []kernel.Problem {
	var out []kernel.Problem
	for i, f := range kerneltest.Formats {
		ls, err := New("").Layouts(context.Background(), nil, f)
		if err != nil {
			t.Fatal(err)
		}
		for j, a := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
			if f.Arith(a) == a {
				m := kernel.MPoints[(i+j)%len(kernel.MPoints)]
				out = append(out, kerneltest.LinearProblems(m, a, f, ls[i%len(ls)])[3])
			}
		}
	}
	out = append(out, kerneltest.SmallProblems(kernel.Layout{Lanes: 16, Cols: 1})...)
	return append(out, kerneltest.QuantProblems()[0], kerneltest.RopeProblems()[0], kerneltest.AttnProblems()[0])
}

func TestEveryArtifactIsRight(t *testing.T) {
	ctx := context.Background()
	b := New("digest")
	for _, p := range problems(t) {
		s, err := b.Space(ctx, nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		for _, c := range configs(s) {
			a, err := b.Emit(ctx, nil, p, c)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Validate(nil); err != nil {
				t.Error(err)
			}
			fns, err := ref.Build(a)
			if err != nil {
				t.Fatal(err)
			}
			kerneltest.Test(t, &kerneltest.Heap{}, kerneltest.Funcs(fns), a)
		}
	}
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	b := New("")
	five := kernel.Format{Bits: 5, Group: 16, Bias: 8, Scale: kernel.ScaleF16}
	if _, err := b.Layouts(ctx, nil, five); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("layouts of five bits: %v, want ErrUnsupported", err)
	}
	p := kerneltest.LinearProblems(1, kernel.A8, kernel.FormatQ4_0, kernel.Layout{Lanes: 16, Cols: 1})[0]
	if _, err := b.Emit(ctx, nil, p, kernel.Config{"mr": 3, "chunk": 0}); !errors.Is(err, kernel.ErrConfig) {
		t.Errorf("a value outside the space: %v, want ErrConfig", err)
	}
	for name, spoil := range map[string]func(*kernel.Problem){
		"op":                 func(p *kernel.Problem) { p.Op = "sort" },
		"arith":              func(p *kernel.Problem) { p.Arith = "a4" },
		"group":              func(p *kernel.Problem) { p.Act.Group = 64 },
		"N":                  func(p *kernel.Problem) { p.N = 0 },
		"K":                  func(p *kernel.Problem) { p.K = 40 },
		"layout":             func(p *kernel.Problem) { p.Layout = kernel.Layout{} },
		"format":             func(p *kernel.Problem) { p.Format.Bits = 5 },
		"half a super-group": func(p *kernel.Problem) { p.Format, p.K = kernel.FormatQ4_K, 128 },
		"floats":             func(p *kernel.Problem) { p.Format = kernel.FormatF16 },
	} {
		q := p
		spoil(&q)
		if _, err := b.Space(ctx, nil, q); !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("wrong %s: %v, want ErrUnsupported", name, err)
		}
	}
}

// TestDefaultArm checks that a suite of this backend alone resolves what a step of the engine needs.
func TestDefaultArm(t *testing.T) {
	s := kernel.Suite{Backends: map[string]kernel.Backend{Name: New("")}}
	for _, p := range problems(t) {
		c, err := s.Default(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Emit(context.Background(), c); err != nil {
			t.Error(err)
		}
	}
}
