package kerneltest

import "github.com/tilewright/tilewright/kernel"

// Formats are the weight formats that every backend is asked about.
var Formats = []kernel.Format{
	kernel.FormatQ4_0, kernel.FormatQ4_1, kernel.FormatQ8_0,
	kernel.Asym(16), kernel.Asym(64), kernel.Asym(128),
	{Bits: 4, Group: 64, Bias: 8, Scale: kernel.ScaleBF16},
	{Bits: 4, Group: 128, Offset: true, Scale: kernel.ScaleBF16},
	{Bits: 8, Group: 128, Bias: 128, Scale: kernel.ScaleF16},
	{Bits: 8, Group: 64, Offset: true, Scale: kernel.ScaleF16},
	{Bits: 6, Group: 32, Bias: 32, Scale: kernel.ScaleF16},
	kernel.FormatQ2_K, kernel.FormatQ3_K, kernel.FormatQ4_K, kernel.FormatQ5_K, kernel.FormatQ6_K,
	kernel.FormatF16, kernel.FormatBF16, kernel.FormatF32,
}

// LinearProblems are ragged shapes of one format, arithmetic, layout and M: N of 1 to 3 panels, plus
// and minus one channel, and K of one group (or super-group), of an odd number and of several.
func LinearProblems(m int, a kernel.Arith, f kernel.Format, l kernel.Layout) []kernel.Problem {
	nr, group := l.NR(), f.Unit()
	if f.IsFloat() {
		group = 32
	}
	var out []kernel.Problem
	for _, s := range [][2]int{
		{1, group}, {nr - 1, 3 * group}, {nr, group}, {nr + 1, 2 * group}, {2*nr - 1, group},
		{2 * nr, 8 * group}, {3*nr - 1, 5 * group}, {3 * nr, 512},
	} {
		if s[0] < 1 || f.Super != kernel.SuperNone && s[1] > 3*group {
			continue
		}
		out = append(out, kernel.Problem{
			Op: kernel.OpLinear, Arith: f.Arith(a), M: m, N: s[0], K: s[1], Format: f, Layout: l,
			Act: kernel.Act{Arith: f.Arith(a), Group: f.Group},
		})
	}
	return out
}

// QuantProblems are all steps and gates over every arithmetic, some groups and row blocks.
func QuantProblems() []kernel.Problem {
	var out []kernel.Problem
	for _, a := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
		for _, s := range []struct{ group, mr, k int }{
			{16, 1, 16}, {32, 1, 576}, {32, 4, 96}, {64, 2, 192}, {128, 8, 512}, {128, 3, 1536}, {0, 1, 96}, {0, 4, 576},
		} {
			if s.group == 0 && a != kernel.F32 {
				continue
			}
			p := kernel.Problem{Op: kernel.OpQuant, K: s.k, Act: kernel.Act{Arith: a, Group: s.group, MR: s.mr}}
			for _, pre := range []kernel.Pre{kernel.PreNone, kernel.PreNorm, kernel.PreAddNorm} {
				p.Pre = pre
				out = append(out, p)
			}
			p.Pre = kernel.PreGLU
			for _, g := range []kernel.Gate{kernel.GateSiLU, kernel.GateGELU, kernel.GateGELUTan} {
				p.Gate = g
				out = append(out, p)
			}
		}
	}
	return out
}

// elems are the stored types.
var elems = []kernel.ElemType{kernel.ElemF32, kernel.ElemF16, kernel.ElemBF16}

// RopeProblems are head sizes of real models, rotated wholly, partly and not at all.
func RopeProblems() []kernel.Problem {
	var out []kernel.Problem
	for _, e := range elems {
		for _, s := range [][2]int{{64, 64}, {128, 128}, {128, 64}, {80, 80}, {96, 32}, {64, 0}, {256, 256}} {
			for _, norm := range []bool{false, true} {
				out = append(out, kernel.Problem{Op: kernel.OpRope, Dim: s[0], Rot: s[1], Norm: norm, Elem: e})
			}
		}
	}
	return out
}

// AttnProblems are query rows of decode and prefill.
func AttnProblems() []kernel.Problem {
	var out []kernel.Problem
	for _, e := range elems {
		for _, s := range [][2]int{{1, 64}, {3, 64}, {4, 128}, {8, 80}, {16, 64}, {37, 128}, {2, 256}} {
			out = append(out, kernel.Problem{Op: kernel.OpAttn, M: s[0], Dim: s[1], Elem: e})
		}
	}
	return out
}

// SmallProblems are the remaining ops.
func SmallProblems(l kernel.Layout) []kernel.Problem {
	out := []kernel.Problem{
		{Op: kernel.OpScale}, {Op: kernel.OpStream},
		{Op: kernel.OpPack, Format: kernel.FormatQ4_0, Layout: l},
		{Op: kernel.OpPack, Format: kernel.FormatQ8_0, Layout: l},
		{Op: kernel.OpPack, Format: kernel.FormatQ6_K, Layout: l},
		{Op: kernel.OpPeak, Arith: kernel.A8}, {Op: kernel.OpPeak, Arith: kernel.A16}, {Op: kernel.OpPeak, Arith: kernel.F32},
	}
	for _, t := range kernel.Blocks {
		out = append(out, kernel.Problem{Op: kernel.OpPack, Format: t.Format(), Layout: l, Source: t})
	}
	for _, t := range []kernel.Block{kernel.BlockF16, kernel.BlockBF16, kernel.BlockF32} {
		for _, f := range []kernel.Format{kernel.Asym(32), kernel.FormatQ8_0} {
			out = append(out, kernel.Problem{Op: kernel.OpPack, Format: f, Layout: l, Source: t})
		}
	}
	return out
}
