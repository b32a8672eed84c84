package ref

import (
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Linear is the oracle of OpLinear: out[m][n] = sum over k of act[m][k] * w[n][k].
func Linear(w *Matrix, act [][]float64) [][]float64 {
	out := make([][]float64, len(act))
	for m := range out {
		out[m] = make([]float64, w.N)
	}
	row := make([]float64, w.K)
	for n := range w.N {
		w.row(row, n)
		for m, x := range act {
			sum := 0.0
			for k, v := range row {
				sum += x[k] * v
			}
			out[m][n] = sum
		}
	}
	return out
}

// RMSNorm is x / sqrt(mean(x^2) + eps) * w; a nil w is all ones.
func RMSNorm(x, w []float64, eps float64) []float64 {
	var ss float64
	for _, v := range x {
		ss += v * v
	}
	r := 1 / math.Sqrt(ss/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * r
		if w != nil {
			out[i] *= w[i]
		}
	}
	return out
}

// Rotate is RoPE over halves: pairs (i, i+rot/2) of the first rot = 2*len(cos) elements turn by the
// angle whose cosine and sine are given.
func Rotate(x, cos, sin []float64) []float64 {
	out := append([]float64(nil), x...)
	half := len(cos)
	for i := range half {
		a, b := x[i], x[i+half]
		out[i] = a*cos[i] - b*sin[i]
		out[i+half] = b*cos[i] + a*sin[i]
	}
	return out
}

// SiLU is x * sigmoid(x).
func SiLU(x float64) float64 { return x / (1 + math.Exp(-x)) }

// GELU is the exact x * Phi(x).
func GELU(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }

// GELUTanh is the tanh approximation of GELU.
func GELUTanh(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// Gate applies a gate's activation.
func Gate(g kernel.Gate, x float64) float64 {
	switch g {
	case kernel.GateSiLU:
		return SiLU(x)
	case kernel.GateGELU:
		return GELU(x)
	case kernel.GateGELUTan:
		return GELUTanh(x)
	}
	return x
}

// Softmax is exp(x - max) / sum; all -Inf gives zeros.
func Softmax(x []float64) []float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	out := make([]float64, len(x))
	if math.IsInf(top, -1) {
		return out
	}
	var sum float64
	for i, v := range x {
		out[i] = math.Exp(v - top)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// Attention is the oracle of OpAttn: for row r of q (scaled already), softmax over the positions
// lo[r] <= p < hi[r] of q.k[p], applied to v[p]. A row that sees nothing gives zeros.
func Attention(q, k, v [][]float64, lo, hi []int) [][]float64 {
	out := make([][]float64, len(q))
	for r := range q {
		out[r] = make([]float64, len(q[r]))
		scores := make([]float64, max(hi[r]-lo[r], 0))
		for i := range scores {
			for d, x := range q[r] {
				scores[i] += x * k[lo[r]+i][d]
			}
		}
		for i, p := range Softmax(scores) {
			for d := range out[r] {
				out[r][d] += p * v[lo[r]+i][d]
			}
		}
	}
	return out
}
