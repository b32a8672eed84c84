// Package wire converts between package kernel and the generated messages of plugins/proto. What
// arrives from the other side is untrusted: every From function checks sizes, names and ranges and
// says what is wrong.
package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
)

// ErrInvalid is wrapped by every refusal of a message.
var ErrInvalid = errors.New("invalid plugin message")

func invalid(format string, v ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, v...))
}

// i32 saturates: an int outside int32 cannot be valid in any field and is refused on arrival.
func i32(v int) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }

// ToFormat encodes a format.
func ToFormat(f kernel.Format) *pb.Format {
	return &pb.Format{Bits: i32(f.Bits), Group: i32(f.Group), Bias: i32(f.Bias), Offset: f.Offset,
		Super: string(f.Super), ScaleType: string(f.Scale)}
}

// FromFormat decodes a format; its meaning is checked by Format.Validate where it is used.
func FromFormat(f *pb.Format) kernel.Format {
	return kernel.Format{Bits: int(f.GetBits()), Group: int(f.GetGroup()), Bias: int(f.GetBias()),
		Offset: f.GetOffset(), Super: kernel.Super(f.GetSuper()), Scale: kernel.ScaleType(f.GetScaleType())}
}

// ToProblem encodes a problem.
func ToProblem(p kernel.Problem) *pb.Problem {
	return &pb.Problem{
		Op: string(p.Op), Arith: string(p.Arith), M: i32(p.M), N: i32(p.N), K: i32(p.K),
		Format: ToFormat(p.Format),
		Layout: &pb.Layout{Lanes: i32(p.Layout.Lanes), Cols: i32(p.Layout.Cols)},
		Act:    &pb.Act{Arith: string(p.Act.Arith), Group: i32(p.Act.Group), Mr: i32(p.Act.MR)},
		Pre:    string(p.Pre), Gate: string(p.Gate), Dim: i32(p.Dim), Rot: i32(p.Rot), Norm: p.Norm,
		Elem: string(p.Elem), Source: string(p.Source),
	}
}

// FromProblem decodes a problem. Negative sizes are refused; whether a backend does the problem is
// the backend's to say.
func FromProblem(p *pb.Problem) (kernel.Problem, error) {
	if p.GetOp() == "" {
		return kernel.Problem{}, invalid("problem without an op")
	}
	for name, v := range map[string]int32{"m": p.GetM(), "n": p.GetN(), "k": p.GetK(), "dim": p.GetDim(),
		"rot": p.GetRot(), "act.group": p.GetAct().GetGroup(), "act.mr": p.GetAct().GetMr()} {
		if v < 0 {
			return kernel.Problem{}, invalid("problem %s: %s is %d", p.GetOp(), name, v)
		}
	}
	out := kernel.Problem{
		Op: kernel.Op(p.GetOp()), Arith: kernel.Arith(p.GetArith()), M: int(p.GetM()), N: int(p.GetN()), K: int(p.GetK()),
		Format: FromFormat(p.GetFormat()),
		Layout: kernel.Layout{Lanes: int(p.GetLayout().GetLanes()), Cols: int(p.GetLayout().GetCols())},
		Act: kernel.Act{Arith: kernel.Arith(p.GetAct().GetArith()), Group: int(p.GetAct().GetGroup()),
			MR: int(p.GetAct().GetMr())},
		Pre: kernel.Pre(p.GetPre()), Gate: kernel.Gate(p.GetGate()), Dim: int(p.GetDim()), Rot: int(p.GetRot()),
		Norm: p.GetNorm(), Elem: kernel.ElemType(p.GetElem()), Source: kernel.Block(p.GetSource()),
	}
	return out, nil
}

// maxLayouts bounds the layouts a backend may list for one format.
const maxLayouts = 64

// ToLayouts encodes a list of layouts.
func ToLayouts(ls []kernel.Layout) *pb.LayoutsResponse {
	out := &pb.LayoutsResponse{}
	for _, l := range ls {
		out.Layouts = append(out.Layouts, &pb.Layout{Lanes: i32(l.Lanes), Cols: i32(l.Cols)})
	}
	return out
}

// FromLayouts decodes and checks the layouts a backend lists for format f.
func FromLayouts(r *pb.LayoutsResponse, f kernel.Format) ([]kernel.Layout, error) {
	if n := len(r.GetLayouts()); n > maxLayouts {
		return nil, invalid("%d layouts for %s, at most %d", n, f, maxLayouts)
	}
	var out []kernel.Layout
	for _, l := range r.GetLayouts() {
		k := kernel.Layout{Lanes: int(l.GetLanes()), Cols: int(l.GetCols())}
		if err := k.Validate(f); err != nil {
			return nil, invalid("layouts of %s: %v", f, err)
		}
		out = append(out, k)
	}
	return out, nil
}
