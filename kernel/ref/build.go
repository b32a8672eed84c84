package ref

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// Build returns the entries of a KindGo artifact. It reads the problem and Exec, never the config.
func Build(a *kernel.Artifact) (map[string]kernel.Func, error) {
	p := a.Key.Problem
	if a.Kind != kernel.KindGo {
		return nil, fmt.Errorf("%w: %s: kind %q is not a portable kernel", kernel.ErrArtifact, p, a.Kind)
	}
	if err := Supports(p); err != nil {
		return nil, err
	}
	var main kernel.Func
	switch p.Op {
	case kernel.OpLinear:
		if a.Exec.MR < 1 || a.Exec.MR > MaxMR || a.Exec.Panel || a.Exec.Streams > 1 {
			return nil, fmt.Errorf("%w: %s: portable kernels take 1 to %d rows, one stream and no panel, not %+v",
				kernel.ErrArtifact, p, MaxMR, a.Exec)
		}
		main = linear(p, a.Exec.MR)
	case kernel.OpQuant:
		main = quant(p)
	case kernel.OpRope:
		main = rope(p)
	case kernel.OpAttn:
		main = attn(p)
	case kernel.OpScale:
		main = scale
	case kernel.OpPack:
		main = pack(p)
	case kernel.OpStream:
		main = stream
	case kernel.OpPeak:
		main = peak
	}
	return map[string]kernel.Func{kernel.EntryMain: main}, nil
}

// Supports reports, wrapping kernel.ErrUnsupported, why there is no portable kernel of a problem.
func Supports(p kernel.Problem) error {
	no := func(format string, v ...any) error {
		return fmt.Errorf("%w: %s: %s", kernel.ErrUnsupported, p, fmt.Sprintf(format, v...))
	}
	switch p.Op {
	case kernel.OpLinear:
		switch {
		case p.N < 1:
			return no("N = %d", p.N)
		case p.Arith.QMax() == 0 && p.Arith != kernel.F32, p.Format.IsFloat() && p.Arith != kernel.F32:
			return no("arithmetic %q on weights of %s", p.Arith, p.Format)
		case p.Act.Group != p.Format.Group && p.Arith != kernel.F32:
			return no("activation group %d, weight group %d", p.Act.Group, p.Format.Group)
		}
		if err := p.Layout.Validate(p.Format); err != nil {
			return no("%v", err)
		}
		return check(p.Format, p.K)
	case kernel.OpQuant:
		return supportsQuant(p, no)
	case kernel.OpRope:
		if p.Dim < 1 || p.Rot < 0 || p.Rot > p.Dim || p.Rot%2 != 0 || !known(p.Elem) {
			return no("dim %d, rot %d, element %q", p.Dim, p.Rot, p.Elem)
		}
	case kernel.OpAttn:
		if p.Dim < 1 || p.M < 1 || !known(p.Elem) {
			return no("dim %d, %d rows, element %q", p.Dim, p.M, p.Elem)
		}
	case kernel.OpPack:
		if p.Format.IsFloat() {
			return no("codes are packed, floats are not")
		}
		if p.Source != kernel.BlockNone && !p.Source.Packs(p.Format) {
			return no("blocks %q do not make this format", p.Source)
		}
		return p.Layout.Validate(p.Format)
	case kernel.OpScale, kernel.OpStream, kernel.OpPeak:
	default:
		return no("unknown op")
	}
	return nil
}

func supportsQuant(p kernel.Problem, no func(string, ...any) error) error {
	a := p.Act
	switch {
	case a.Arith.QMax() == 0 && a.Arith != kernel.F32:
		return no("arithmetic %q", a.Arith)
	case a.MR < 1 || a.Group < 0 || p.K < 1 || a.Group == 0 && a.Arith != kernel.F32:
		return no("MR %d, group %d, K %d", a.MR, a.Group, p.K)
	case a.Group > 0 && p.K%a.Group != 0, a.Arith != kernel.F32 && a.Group%8 != 0:
		return no("groups of %d in K = %d", a.Group, p.K)
	}
	switch p.Pre {
	case kernel.PreNone, kernel.PreNorm, kernel.PreAddNorm:
		return nil
	case kernel.PreGLU:
		switch p.Gate {
		case kernel.GateSiLU, kernel.GateGELU, kernel.GateGELUTan:
			return nil
		}
	}
	return no("step %q with gate %q", p.Pre, p.Gate)
}

func known(t kernel.ElemType) bool {
	return t == kernel.ElemF32 || t == kernel.ElemF16 || t == kernel.ElemBF16
}

// view is the n elements at p.
func view[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }
