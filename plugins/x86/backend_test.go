package x86

import (
	"context"
	"errors"
	"testing"

	"github.com/tilewright/tilewright/kernel"
)

// What a backend cannot do is a reported state, by every method.
func TestUnsupported(t *testing.T) {
	ctx := context.Background()
	b := testBackend(AVX512)
	layout := kernel.Layout{Lanes: 16, Cols: 2}
	linear := kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 1, N: 64, K: 256, Format: kernel.FormatQ4_0, Layout: layout}
	with := func(f func(p *kernel.Problem)) kernel.Problem { p := linear; f(&p); return p }
	for name, c := range map[string]struct {
		host kernel.Features
		p    kernel.Problem
	}{
		"host without VNNI":      {AVX512.Features.Without("avx512_vnni"), linear},
		"op":                     {AVX512.Features, kernel.Problem{Op: "conv"}},
		"5 bits":                 {AVX512.Features, with(func(p *kernel.Problem) { p.Format.Bits = 5 })},
		"foreign super-scales":   {AVX512.Features, with(func(p *kernel.Problem) { p.Format.Super = kernel.SuperQ4K })},
		"half a super-group":     {AVX512.Features, with(func(p *kernel.Problem) { p.Format, p.K = kernel.FormatQ6_K, 128 })},
		"lanes":                  {AVX512.Features, with(func(p *kernel.Problem) { p.Layout.Lanes = 4 })},
		"columns":                {AVX512.Features, with(func(p *kernel.Problem) { p.Layout.Cols = 3 })},
		"K off the group":        {AVX512.Features, with(func(p *kernel.Problem) { p.K = 250 })},
		"integer on floats":      {AVX512.Features, with(func(p *kernel.Problem) { p.Format = kernel.FormatF16 })},
		"arithmetic":             {AVX512.Features, with(func(p *kernel.Problem) { p.Arith = "a4" })},
		"activation group":       {AVX512.Features, with(func(p *kernel.Problem) { p.Act.Group = 64 })},
		"packing floats":         {AVX512.Features, kernel.Problem{Op: kernel.OpPack, Format: kernel.FormatF16, Layout: layout}},
		"unknown blocks":         {AVX512.Features, kernel.Problem{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: layout, Source: "q1_0"}},
		"blocks of a format":     {AVX512.Features, kernel.Problem{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: layout, Source: kernel.BlockQ4_1}},
		"floats to groups of 64": {AVX512.Features, kernel.Problem{Op: kernel.OpPack, Format: kernel.Asym(64), Layout: layout, Source: kernel.BlockF16}},
		"peak of no arithmetic":  {AVX512.Features, kernel.Problem{Op: kernel.OpPeak}},
	} {
		if _, err := b.Space(ctx, c.host, c.p); !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("%s: Space: %v", name, err)
		}
		if _, err := b.Emit(ctx, c.host, c.p, kernel.Config{}); !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("%s: Emit: %v", name, err)
		}
	}
	if _, err := b.Layouts(ctx, nil, kernel.FormatQ4_0); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("Layouts without features: %v", err)
	}
}

func TestEmitRefusesConfig(t *testing.T) {
	p := kernel.Problem{Op: kernel.OpLinear, Arith: kernel.A8, M: 512, N: 64, K: 256, Format: kernel.Asym(128), Layout: kernel.Layout{Lanes: 16, Cols: 2}}
	for _, isa := range []ISA{AVX2, AVX512} {
		s := spaceOf(t, isa, p)
		for name, change := range map[string]func(kernel.Config){
			"missing parameter": func(c kernel.Config) { delete(c, parMR) },
			"unknown parameter": func(c kernel.Config) { c["color"] = 1 },
			"foreign value":     func(c kernel.Config) { c[parKU] = 7 },
			"registers": func(c kernel.Config) {
				c[parMR], c[parVecs], c[parFMem] = s.Params[0].Values[len(s.Params[0].Values)-1], 2, 0
			},
		} {
			c := s.Default()
			change(c)
			if _, err := testBackend(isa).Emit(context.Background(), isa.Features, p, c); !errors.Is(err, kernel.ErrConfig) {
				t.Errorf("%s, %s: %v", isa.Name, name, err)
			}
		}
	}
}

// The same problem and configuration give the same bytes: artifacts are content-addressed.
func TestEmitIsDeterministic(t *testing.T) {
	for i, p := range linearProblems() {
		if i%37 != 0 {
			continue
		}
		for _, s := range isas {
			c := spaceOf(t, s.isa, p).Default()
			if a, b := emit(t, s.isa, p, c), emit(t, s.isa, p, c); a.Digest() != b.Digest() {
				t.Errorf("%s %s: digests differ", s.isa.Name, p)
			}
		}
	}
}
