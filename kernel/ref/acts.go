package ref

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Acts are M rows of K activations as a linear op sees them: quantised codes with their scales, or
// plain floats for F32 arithmetic.
type Acts struct {
	Act    kernel.Act
	M, K   int
	Codes  [][]int32   // [M][K], integer arithmetics
	Scales [][]float32 // [M][K/Group], integer arithmetics
	Floats [][]float32 // [M][K], F32
}

// Quantize quantises rows by the rule of the package comment.
func Quantize(act kernel.Act, x [][]float32) *Acts {
	a := &Acts{Act: act, M: len(x)}
	if len(x) > 0 {
		a.K = len(x[0])
	}
	if act.Arith == kernel.F32 {
		a.Floats = x
		return a
	}
	for _, row := range x {
		codes, scales := quantizeRow(act, row)
		a.Codes, a.Scales = append(a.Codes, codes), append(a.Scales, scales)
	}
	return a
}

func quantizeRow(act kernel.Act, x []float32) (codes []int32, scales []float32) {
	qmax := float64(act.Arith.QMax())
	codes = make([]int32, len(x))
	for g := range act.Groups(len(x)) {
		group := x[g*act.Group : (g+1)*act.Group]
		s := GroupScale(act.Arith, group)
		scales = append(scales, s)
		if s == 0 || s != s {
			continue
		}
		for i, v := range group {
			q := math.RoundToEven(float64(v) / float64(s))
			codes[g*act.Group+i] = int32(max(-qmax, min(qmax, q)))
		}
	}
	return codes, scales
}

// GroupScale is the scale of one group: amax/QMax in float32, 0 if that is subnormal, NaN if an
// element is not finite.
func GroupScale(a kernel.Arith, x []float32) float32 {
	var amax uint32 // magnitudes order as integers, and a NaN is above infinity
	for _, v := range x {
		amax = max(amax, math.Float32bits(v)&0x7fffffff)
	}
	if amax >= 0x7f800000 {
		return float32(math.NaN())
	}
	s := math.Float32frombits(amax) / float32(a.QMax())
	if s < 0x1p-126 {
		return 0
	}
	return s
}

// Value is the number that element k of row m stands for.
func (a *Acts) Value(m, k int) float64 {
	if a.Act.Arith == kernel.F32 {
		return float64(a.Floats[m][k])
	}
	return float64(a.Scales[m][k/a.Act.Group]) * float64(a.Codes[m][k])
}

// Values are the numbers that the rows stand for, [M][K].
func (a *Acts) Values() [][]float64 {
	out := make([][]float64, a.M)
	for m := range out {
		out[m] = make([]float64, a.K)
		for k := range out[m] {
			out[m][k] = a.Value(m, k)
		}
	}
	return out
}

// Blocks is the number of blocks of MR rows.
func (a *Acts) Blocks() int { return (a.M + a.Act.MR - 1) / a.Act.MR }

// Pack lays the rows out as kernel.Act says: codes as dwords, scales as f32 bits and sums as int32
// or f32 bits, block by block, [K*Bytes/4][MR] and [K/Group][MR] each. Missing rows are zero.
func (a *Acts) Pack() (codes, scales, sums []uint32) {
	act := a.Act
	steps, groups := a.K*act.Arith.Bytes()/4, act.Groups(a.K)
	codes = make([]uint32, a.Blocks()*steps*act.MR)
	scales = make([]uint32, a.Blocks()*groups*act.MR)
	sums = make([]uint32, len(scales))
	for m := range a.M {
		b, r := m/act.MR, m%act.MR
		for t := range steps {
			codes[(b*steps+t)*act.MR+r] = a.dword(m, t)
		}
		for g := range groups {
			at := (b*groups+g)*act.MR + r
			if act.Arith == kernel.F32 {
				sums[at] = math.Float32bits(float32(sum(a.Floats[m][g*act.Group:][:act.Group])))
				continue
			}
			scales[at] = math.Float32bits(a.Scales[m][g])
			sums[at] = uint32(int32(sum(a.Codes[m][g*act.Group:][:act.Group])))
		}
	}
	return codes, scales, sums
}

// dword is step t of row m.
func (a *Acts) dword(m, t int) uint32 {
	switch a.Act.Arith {
	case kernel.A8:
		q := a.Codes[m][4*t:]
		return uint32(uint8(q[0])) | uint32(uint8(q[1]))<<8 | uint32(uint8(q[2]))<<16 | uint32(uint8(q[3]))<<24
	case kernel.A16:
		q, order := a.Codes[m][t/4*8:], kernel.A16Order[t%4*2:]
		return uint32(uint16(q[order[0]])) | uint32(uint16(q[order[1]]))<<16
	}
	return math.Float32bits(a.Floats[m][t])
}

func sum[T int32 | float32](x []T) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}
