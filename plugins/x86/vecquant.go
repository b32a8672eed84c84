package x86

import (
	"fmt"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/asm/amd64"
)

func init() {
	generators[kernel.OpQuant] = generator{space: quantSpace, emit: emitQuant}
}

// General registers of OpQuant.
const (
	qX     = amd64.RSI // advances by group, as all of these
	qY     = amd64.RDX
	qW     = amd64.RCX
	qA     = amd64.R8
	qScale = amd64.R9
	qSum   = amd64.R10
	qCount = amd64.R11
	qTmp   = amd64.RBX
)

func checkQuant(p kernel.Problem) error {
	no := func(format string, v ...any) error {
		return fmt.Errorf("%w: %s: %s", kernel.ErrUnsupported, p, fmt.Sprintf(format, v...))
	}
	a := p.Act
	switch {
	case a.MR < 1 || a.MR > 64:
		return no("rows per block must be 1 to 64")
	case p.K < 1 || p.K > 1<<20:
		return no("K must be 1 to 2^20")
	case a.Arith != kernel.A8 && a.Arith != kernel.A16 && a.Arith != kernel.F32:
		return no("no arithmetic %q", a.Arith)
	case a.Group == 0 && a.Arith != kernel.F32:
		return no("integer activations need a group")
	case a.Group != 0 && (a.Group%16 != 0 || a.Group < 0 || a.Group > 256 || p.K%a.Group != 0):
		return no("the group must be a multiple of 16 up to 256 that divides K")
	}
	switch p.Pre {
	case kernel.PreNone, kernel.PreNorm, kernel.PreAddNorm:
		return nil
	case kernel.PreGLU:
		if p.Gate == kernel.GateSiLU || p.Gate == kernel.GateGELU || p.Gate == kernel.GateGELUTan {
			return nil
		}
		return no("no gate %q", p.Gate)
	}
	return no("no step %q", p.Pre)
}

// quant emits one OpQuant.
type quant struct {
	*Emitter
	p      kernel.Problem
	rms    amd64.Vec // 1/rms(x), where there is a norm
	hold   int       // vectors of a group that stay in registers
	chains int       // gates that are interleaved
}

func emitQuant(isa ISA, p kernel.Problem, c kernel.Config) (Code, error) {
	if err := checkQuant(p); err != nil {
		return Code{}, err
	}
	q := &quant{Emitter: NewEmitter(isa), p: p, hold: int(c["hold"]), chains: int(c["chains"])}
	q.loadArgs()
	if p.Pre == kernel.PreNorm || p.Pre == kernel.PreAddNorm {
		q.norm()
	}
	var x kernel.Exec
	if p.Act.Arith == kernel.F32 {
		q.floats()
	} else {
		groups := int(c["groups"])
		if q.scratch() {
			x.ScratchBytes = 4 * groups * p.Act.Group
		}
		q.integers(groups)
	}
	q.Ret()
	return finish(q.Emitter, x)
}

func (q *quant) loadArgs() {
	var args kernel.QuantArgs
	q.arg(qX, unsafe.Offsetof(args.X))
	q.arg(qY, unsafe.Offsetof(args.Y))
	q.arg(qW, unsafe.Offsetof(args.W))
	q.arg(qA, unsafe.Offsetof(args.A))
	q.arg(qScale, unsafe.Offsetof(args.Scale))
	q.arg(qSum, unsafe.Offsetof(args.Sum))
	if q.scratch() {
		q.arg(qTmp, unsafe.Offsetof(args.Tmp))
	}
}

// scratch reports whether values go through scratch memory, [groups][group] floats: gates that the
// registers do not hold.
func (q *quant) scratch() bool {
	return q.p.Pre == kernel.PreGLU && q.p.Act.Arith != kernel.F32 && q.hold < q.p.Act.Group/q.ISA.Lanes
}

// norm computes 1/rms of the row and, for PreAddNorm, adds the delta first. Square root and
// divisions are exact; the sum has 4 vectors of partial sums.
func (q *quant) norm() {
	const unroll = 4
	acc, x := q.Vecs(unroll), q.Vecs(unroll)
	for _, a := range acc {
		q.Zero(a)
	}
	step := func(i, at int, p part) {
		m := amd64.M(qX, 4*at)
		q.loadPart(x[i], m, p)
		if q.p.Pre == kernel.PreAddNorm {
			q.opPart(amd64.VADDPS, x[i], x[i], amd64.M(qY, 4*at), p)
			q.storePart(m, x[i], p)
		}
		q.Op(amd64.VFMADD231PS, acc[i], x[i], x[i])
	}
	chunk := unroll * q.ISA.Lanes
	if n := q.p.K / chunk; n > 0 {
		q.times(qCount, n, func() {
			for i := range unroll {
				step(i, i*q.ISA.Lanes, q.whole())
			}
			q.AddI(qX, 4*chunk)
			q.AddI(qY, 4*chunk)
		})
	}
	i := 0
	q.runs(q.p.K%chunk, func(at int, p part) { step(i, at, p); i++ })
	q.Op(amd64.VADDPS, acc[0], acc[0], acc[1])
	q.Op(amd64.VADDPS, acc[2], acc[2], acc[3])
	q.Op(amd64.VADDPS, acc[0], acc[0], acc[2])
	var args kernel.QuantArgs
	q.arg(amd64.RAX, unsafe.Offsetof(args.Eps))
	q.rms = q.inverseRMS(acc[0], q.p.K, x[0])
	q.arg(qX, unsafe.Offsetof(args.X))
	q.Release(acc[1:]...)
	q.Release(x...)
}

// inverseRMS turns a vector of partial sums of squares of n elements into 1/sqrt(sum/n + eps) in
// every lane; RAX points at eps, t is a temporary.
func (e *Emitter) inverseRMS(sum amd64.Vec, n int, t amd64.Vec) amd64.Vec {
	s, one := Low(sum), Low(t)
	e.fold(amd64.VADDPS, sum)
	e.Op(amd64.VDIVSS, s, s, e.sf(float32(n)))
	e.Op(amd64.VADDSS, s, s, amd64.M(amd64.RAX, 0))
	e.Op(amd64.VSQRTSS, s, s, s)
	e.Op(amd64.VMOVSS, one, e.sf(1))
	e.Op(amd64.VDIVSS, s, one, s)
	return e.spread(s)
}

// value makes what is to be packed: consecutive runs of floats from element at of the current group
// on, after the fused step. Only a single run may be shorter than a vector.
func (q *quant) value(at int, p part, d ...amd64.Vec) {
	off := func(i int) int { return 4 * (at + i*q.ISA.Lanes) }
	for i, v := range d {
		q.loadPart(v, amd64.M(qX, off(i)), p)
	}
	weight := qW
	switch q.p.Pre {
	case kernel.PreNone:
		return
	case kernel.PreGLU:
		if q.p.Gate == kernel.GateSiLU {
			q.siluTimes(at, p, d)
			return
		}
		q.gate(q.p.Gate, d...)
		weight = qY
	default:
		q.each(amd64.VMULPS, d, d, q.rms)
	}
	for i, v := range d {
		q.opPart(amd64.VMULPS, v, v, amd64.M(weight, off(i)), p)
	}
}

// siluTimes replaces each x by x y / (1 + e^-x). The product of x and y, which are read for it, is no
// part of the long chain of dependent instructions, but overflows where |xy| is no float: no model comes
// near.
func (q *quant) siluTimes(at int, p part, x []amd64.Vec) {
	q.onePlusExp(x)
	xy := q.like(x)
	for i, v := range xy {
		off := 4 * (at + i*q.ISA.Lanes)
		q.loadPart(v, amd64.M(qX, off), p)
		q.opPart(amd64.VMULPS, v, v, amd64.M(qY, off), p)
	}
	q.divide(x, xy, x)
	q.Release(xy...)
}

// chainRegs is the number of registers that one gate takes.
func chainRegs(g kernel.Gate) int64 {
	if g == kernel.GateSiLU {
		return 3
	}
	return 1 + gateTemps
}

// advance moves the input pointers n elements on.
func (q *quant) advance(n int) {
	q.AddI(qX, 4*n)
	switch q.p.Pre {
	case kernel.PreNorm, kernel.PreAddNorm:
		q.AddI(qW, 4*n)
	case kernel.PreGLU:
		q.AddI(qY, 4*n)
	}
	q.AddI(qA, n*q.p.Act.Arith.Bytes()*q.p.Act.MR)
}

// step is the number of bytes between two dwords of a row.
func (q *quant) step() int { return 4 * q.p.Act.MR }
