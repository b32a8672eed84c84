package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Attn checks an OpAttn artifact. Positions that no row sees hold finite rubbish, as a reused KV
// cache does.
func Attn(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

func (b *bench) attn() []error {
	var errs []error
	for _, c := range []struct {
		name   string
		calls  []int // blocks of each call
		spread float64
		see    func(r, n int) (lo, hi int)
	}{
		{"all of one block", []int{1}, 1, func(_, n int) (int, int) { return 0, n }},
		{"causal", []int{3}, 1, func(r, n int) (int, int) { return 0, max(n-b.p.M+r+1, 1) }},
		{"window across two calls", []int{2, 3}, 1, func(r, n int) (int, int) { return 11 + r%20, min(n, 40+r%30) }},
		{"single positions", []int{1, 1}, 1, func(r, n int) (int, int) { return r % n, r%n + 1 }},
		{"some rows see nothing", []int{2}, 1, func(r, n int) (int, int) { return 5, 5 + r%3*9 }},
		{"no row sees anything", []int{1}, 1, func(int, int) (int, int) { return 3, 3 }},
		{"first call unseen", []int{1, 2}, 1, func(r, n int) (int, int) { return 16 + r%7, n }},
		{"last call unseen", []int{2, 1}, 1, func(r, n int) (int, int) { return 0, n - 16 - r%7 }},
		{"large scores", []int{2, 2}, 30, func(_, n int) (int, int) { return 0, n }},
		{"all scores equal", []int{1, 1}, 0, func(_, n int) (int, int) { return 0, n }},
	} {
		b.try(&errs, c.name, func() error { return b.attnCase(c.calls, c.spread, c.see) })
	}
	return errs
}

func (b *bench) attnCase(calls []int, spread float64, see func(r, n int) (lo, hi int)) error {
	p, n := b.p, 0
	for _, c := range calls {
		n += c * kernel.KVBlock
	}
	lo, hi, seen := make([]int, p.M), make([]int, p.M), make([]bool, n)
	for r := range lo {
		lo[r], hi[r] = see(r, n)
		for i := lo[r]; i < hi[r]; i++ {
			seen[i] = true
		}
	}
	for i := range seen { // rubbish may also get no weight at all: no place for it in a single case
		seen[i] = seen[i] || b.every > 0
	}
	q := make([][]float64, p.M)
	qt := make([]float32, p.Dim*p.M)
	for r := range q {
		row := b.normals(p.Dim, spread/math.Sqrt(float64(p.Dim)))
		q[r] = wide(row)
		for d, v := range row {
			qt[d*p.M+r] = v
		}
	}
	k, v := b.kv(seen), b.kv(seen)
	acc, sum, err := b.attnRun(calls, lo, hi, put(b, qt), k, v)
	if err != nil {
		return err
	}
	for r := 0; r < p.M; r += max(1, b.every) {
		want := ref.Attention(q[r:r+1], k, v, lo[r:r+1], hi[r:r+1])[0]
		top, mass := 0.0, 0.0
		for i := lo[r]; i < hi[r]; i++ {
			s := 0.0
			for d := range p.Dim {
				s += math.Abs(q[r][d] * k[i][d])
				top = max(top, math.Abs(v[i][d]))
			}
			mass = max(mass, s)
		}
		for d, x := range want {
			got := float64(acc[r*p.Dim+d])
			if lo[r] < hi[r] {
				got /= float64(sum[r])
			}
			if err := within(got, x, top*(1e-5+1e-6*mass)); err != nil {
				return fmt.Errorf("row %d (positions %d to %d), element %d: %w", r, lo[r], hi[r], d, err)
			}
		}
		if lo[r] >= hi[r] && sum[r] != 0 {
			return fmt.Errorf("row %d sees nothing, but its sum is %g", r, sum[r])
		}
	}
	return nil
}

// kv are the values of a K or V, exact in the element type, [positions][Dim].
func (b *bench) kv(seen []bool) [][]float64 {
	out := make([][]float64, len(seen))
	for i := range out {
		row := b.normals(b.p.Dim, 1)
		for d, v := range row {
			if !seen[i] {
				v *= 1000
			}
			row[d] = float32(loadElem(b.p.Elem, storeElem(b.p.Elem, v)))
		}
		out[i] = wide(row)
	}
	return out
}

func (b *bench) attnRun(calls, lo, hi []int, q Buffer, k, v [][]float64) (acc, sum []float32, err error) {
	p, size := b.p, b.p.Elem.Bytes()
	kBuf, vBuf := b.alloc(len(k)*p.Dim*size), b.alloc(len(v)*p.Dim*size)
	for i := range k {
		for d := range p.Dim {
			at := (i/kernel.KVBlock*p.Dim+d)*kernel.KVBlock + i%kernel.KVBlock
			copy(kBuf.Mem[at*size:], storeElem(p.Elem, float32(k[i][d])))
			copy(vBuf.Mem[(i*p.Dim+d)*size:], storeElem(p.Elem, float32(v[i][d])))
		}
	}
	top := make([]float32, p.M)
	for r := range top {
		top[r] = float32(math.Inf(-1))
	}
	topBuf, sumBuf, accBuf := put(b, top), b.alloc(4*p.M), b.alloc(4*p.M*p.Dim)
	tmp := b.fill((b.e.ScratchBytes + 63) &^ 63)
	first := 0
	for _, blocks := range calls {
		lo32, hi32 := make([]int32, p.M), make([]int32, p.M)
		for r := range lo {
			lo32[r], hi32[r] = int32(lo[r]-first), int32(hi[r]-first)
		}
		off := first * p.Dim * size
		b.call(kernel.EntryMain, q.Addr, kBuf.at(off), vBuf.at(off), put(b, lo32).Addr, put(b, hi32).Addr,
			topBuf.Addr, sumBuf.Addr, accBuf.Addr, tmp.Addr, uint64(blocks))
		if b.err != nil {
			return nil, nil, b.err
		}
		first += blocks * kernel.KVBlock
		for r := range lo {
			if t := as[float32](topBuf)[r]; (hi[r] <= lo[r] || lo[r] >= first) && !math.IsInf(float64(t), -1) {
				return nil, nil, fmt.Errorf("row %d has seen nothing, but its maximum is %g", r, t)
			}
		}
	}
	return as[float32](accBuf), as[float32](sumBuf), nil
}

func storeElem(t kernel.ElemType, v float32) []byte {
	switch t {
	case kernel.ElemF16:
		return binary.LittleEndian.AppendUint16(nil, ref.F32ToF16(v))
	case kernel.ElemBF16:
		return binary.LittleEndian.AppendUint16(nil, ref.F32ToBF16(v))
	}
	return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
}
