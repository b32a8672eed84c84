package ref

import (
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// attn is OpAttn: for each block of 16 positions, converted once, each row that sees some of it
// updates its running maximum, sum and accumulator.
func attn(p kernel.Problem) kernel.Func {
	const n = kernel.KVBlock
	dim, rows, bytes := p.Dim, p.M, p.Dim*n*p.Elem.Bytes()
	return func(args unsafe.Pointer) {
		a := *(*kernel.AttnArgs)(args)
		scratch := floatPool.Get().(*[]float32)
		defer floatPool.Put(scratch)
		buf := sized(scratch, 2*n*dim)
		k, v := buf[:n*dim], buf[n*dim:]
		lo, hi := view[int32](a.Lo, rows), view[int32](a.Hi, rows)
		q := view[float32](a.Q, dim*rows)
		top, sum := view[float32](a.Max, rows), view[float32](a.Sum, rows)
		acc := view[float32](a.Acc, rows*dim)
		for b := range int(a.Blocks) {
			load(k, p.Elem, unsafe.Add(a.K, b*bytes))
			load(v, p.Elem, unsafe.Add(a.V, b*bytes))
			for r := range rows {
				from, to := max(int(lo[r])-b*n, 0), min(int(hi[r])-b*n, n)
				if from >= to {
					continue
				}
				s := scores(q[r:], k, dim, rows)
				top[r], sum[r] = fold(acc[r*dim:(r+1)*dim], v, s[from:to], from, top[r], sum[r])
			}
		}
	}
}

// scores are the dot products of one query row, elements stride apart, with 16 positions.
func scores(q, k []float32, dim, stride int) (s [kernel.KVBlock]float32) {
	for d := range dim {
		x := q[d*stride]
		for i, y := range k[d*kernel.KVBlock:][:kernel.KVBlock] {
			s[i] += x * y
		}
	}
	return s
}

// fold adds positions from, from+1, ... with scores s to an online softmax state.
func fold(acc, v, s []float32, from int, top, sum float32) (float32, float32) {
	was := top
	for _, x := range s {
		top = max(top, x)
	}
	if math.IsInf(float64(top), -1) {
		return top, sum
	}
	if c := float32(math.Exp(float64(was - top))); c != 1 {
		sum *= c
		for d := range acc {
			acc[d] *= c
		}
	}
	for i, x := range s {
		e := float32(math.Exp(float64(x - top)))
		sum += e
		for d, y := range v[(from+i)*len(acc):][:len(acc)] {
			acc[d] += e * y
		}
	}
	return top, sum
}
