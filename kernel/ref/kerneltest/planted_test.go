package kerneltest

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// TestPlantedFaults breaks portable kernels on purpose: the harness must notice every fault.
func TestPlantedFaults(t *testing.T) {
	layout := kernel.Layout{Lanes: 16, Cols: 1}
	lin := LinearProblems(1, kernel.A8, kernel.Asym(32), layout)[5]
	lin16 := LinearProblems(1, kernel.A16, kernel.FormatQ8_0, layout)[3]
	quant := kernel.Problem{Op: kernel.OpQuant, K: 96, Pre: kernel.PreNone, Act: kernel.Act{Arith: kernel.A8, Group: 32, MR: 4}}
	quant16, norm, glu, add := quant, quant, quant, quant
	quant16.Act.Arith = kernel.A16
	norm.Pre, add.Pre = kernel.PreNorm, kernel.PreAddNorm
	glu.Pre, glu.Gate = kernel.PreGLU, kernel.GateGELU
	rope := kernel.Problem{Op: kernel.OpRope, Dim: 64, Rot: 64, Elem: kernel.ElemF16}
	attn := kernel.Problem{Op: kernel.OpAttn, M: 3, Dim: 64, Elem: kernel.ElemF16}

	// other swaps in the kernel of another problem.
	other := func(p kernel.Problem) func(kernel.Func) kernel.Func {
		return func(kernel.Func) kernel.Func { return build(t, p)[kernel.EntryMain] }
	}
	gelu := glu
	gelu.Gate = kernel.GateGELUTan
	biased, ordered := lin, lin16
	biased.Format.Bias = 8
	ordered.Arith, ordered.Act.Arith = kernel.A8, kernel.A8
	blocks := kernel.Problem{Op: kernel.OpPack, Format: kernel.FormatQ8_0, Layout: layout, Source: kernel.BlockIQ4NL}
	nibbles := blocks
	nibbles.Source = kernel.BlockQ5_0
	unrotated := rope
	unrotated.Rot = 32

	for name, c := range map[string]struct {
		p     kernel.Problem
		spoil func(kernel.Func) kernel.Func
	}{
		"linear: does nothing":       {lin, func(kernel.Func) kernel.Func { return func(unsafe.Pointer) {} }},
		"linear: ignores the bias":   {lin, other(biased)},
		"linear: wrong arithmetic":   {lin16, other(ordered)},
		"linear: last panel missing": {lin, linearFault(func(a *kernel.LinearArgs) { a.Panels-- })},
		"linear: rows overlap":       {lin, linearFault(func(a *kernel.LinearArgs) { a.LDC -= 64 })},
		"linear: scale of another group": {lin, linearFault(func(a *kernel.LinearArgs) {
			s := unsafe.Slice((*float32)(a.AScale), 3)
			s[1] = s[0]
		})},
		"linear: one in the last place, exact": {lin, func(f kernel.Func) kernel.Func {
			return func(p unsafe.Pointer) {
				f(p)
				out := (*float32)((*kernel.LinearArgs)(p).Out)
				*out = math.Nextafter32(*out, 1e30)
			}
		}},
		"quant: writes row 0":          {quant, quantFault(func(a *kernel.QuantArgs) { a.Sum = unsafe.Add(a.Sum, -4) })},
		"quant: sum missing":           {quant, quantAfter(func(a *kernel.QuantArgs) { *(*int32)(a.Sum)++ })},
		"quant: overwrites its input":  {quant, quantAfter(func(a *kernel.QuantArgs) { *(*float32)(a.X)++ })},
		"quant: truncates":             {quant, quantFault(truncate)},
		"quant: norm left out":         {norm, other(quant)},
		"quant: sum not written back":  {add, other(norm)},
		"quant: the other GELU":        {glu, other(gelu)},
		"quant: int8 codes for int16":  {quant16, other(quant)},
		"rope: half of the rotation":   {rope, other(unrotated)},
		"rope: stores one too far":     {rope, ropeFault(func(a *kernel.RopeArgs) { a.Out = unsafe.Add(a.Out, 2) })},
		"rope: ignores the bias":       {rope, ropeFault(func(a *kernel.RopeArgs) { a.Bias = nil })},
		"rope: ignores the scale":      {rope, ropeFault(func(a *kernel.RopeArgs) { one := float32(1); a.Scale = unsafe.Pointer(&one) })},
		"attn: one block short":        {attn, attnFault(func(a *kernel.AttnArgs) { a.Blocks-- })},
		"attn: sees one more":          {attn, attnFault(func(a *kernel.AttnArgs) { *(*int32)(a.Hi)++ })},
		"attn: ignores the lower edge": {attn, attnFault(func(a *kernel.AttnArgs) { *(*int32)(a.Lo) = 0 })},
		"scale: one short": {kernel.Problem{Op: kernel.OpScale}, func(f kernel.Func) kernel.Func {
			return func(p unsafe.Pointer) { a := *(*kernel.ScaleArgs)(p); a.N--; f(unsafe.Pointer(&a)) }
		}},
		"pack: nibbles in order of k": {SmallProblems(layout)[2], func(f kernel.Func) kernel.Func {
			return func(p unsafe.Pointer) {
				f(p)
				d := unsafe.Slice((*byte)((*kernel.PackArgs)(p).Dst), 2)
				d[0], d[1] = d[1], d[0]
			}
		}},
		"pack: rows by number": {blocks, packFault(func(a *kernel.PackArgs) {
			rows := unsafe.Slice((*int64)(a.Rows), layout.NR())
			rows[0], rows[1] = rows[1], rows[0]
		})},
		"pack: another order of blocks": {blocks, other(nibbles)},
		"pack: scales missing": {blocks, packFault(func(a *kernel.PackArgs) {
			a.Scales = unsafe.Pointer(&make([]byte, layout.ScaleBytes(blocks.Format, int(a.K)))[0])
		})},
	} {
		t.Run(name, func(t *testing.T) {
			fns := build(t, c.p)
			fns[kernel.EntryMain] = c.spoil(fns[kernel.EntryMain])
			a := goArtifact(c.p, kernel.Exec{MR: 2})
			if err := Check(&Heap{}, Funcs(fns), a); err == nil {
				t.Error("the fault went unnoticed")
			}
			if err := Golden(&Heap{}, Funcs(fns), a); err == nil && !strings.HasSuffix(name, "exact") {
				t.Error("the fault went unnoticed by the quick check")
			}
		})
	}
}

// TestCanary checks that a write outside of a buffer is reported.
func TestCanary(t *testing.T) {
	for _, off := range []int{-1, 5} {
		h := &Heap{}
		b, err := h.Alloc(5)
		if err != nil {
			t.Fatal(err)
		}
		*(*byte)(unsafe.Add(unsafe.Pointer(&b.Mem[0]), off)) = 0
		if err := h.Reset(); err == nil || !strings.Contains(err.Error(), "write within") {
			t.Errorf("write at %d: %v", off, err)
		}
	}
}

func build(t *testing.T, p kernel.Problem) Funcs {
	fns, err := ref.Build(goArtifact(p, kernel.Exec{MR: 2}))
	if err != nil {
		t.Fatal(err)
	}
	return fns
}

// changed runs a kernel on a changed copy of its argument block.
func changed[T any](change func(*T)) func(kernel.Func) kernel.Func {
	return func(f kernel.Func) kernel.Func {
		return func(p unsafe.Pointer) {
			a := *(*T)(p)
			change(&a)
			f(unsafe.Pointer(&a))
		}
	}
}

var (
	linearFault = changed[kernel.LinearArgs]
	quantFault  = changed[kernel.QuantArgs]
	ropeFault   = changed[kernel.RopeArgs]
	attnFault   = changed[kernel.AttnArgs]
	packFault   = changed[kernel.PackArgs]
)

// quantAfter spoils what a kernel left.
func quantAfter(spoil func(*kernel.QuantArgs)) func(kernel.Func) kernel.Func {
	return func(f kernel.Func) kernel.Func {
		return func(p unsafe.Pointer) { f(p); spoil((*kernel.QuantArgs)(p)) }
	}
}

// truncate moves a row so that rounding to nearest acts as rounding down.
func truncate(a *kernel.QuantArgs) {
	x := append([]float32(nil), unsafe.Slice((*float32)(a.X), 96)...)
	for i := range x {
		x[i] -= 0.5
	}
	a.X = unsafe.Pointer(&x[0])
}
