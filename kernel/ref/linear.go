package ref

import (
	"sync"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// MaxMR is the largest row block of the portable linear kernels.
const MaxMR = 16

// linearKernel computes one row block against panels. Integer arithmetics multiply several codes at
// once inside a 64-bit word: codes (unsigned) sit in lanes of a word, the matching activations
// (signed) in the lanes of another in reverse order, so that the top lane of the product is their
// dot product; lower lanes can only borrow one from it, which rounding while shifting undoes.
type linearKernel struct {
	f      kernel.Format
	layout kernel.Layout
	arith  kernel.Arith
	k      int
	mr, nr int
	groups int  // per row; 0 for float weights
	quads  bool // four lanes to a word, else two
	span   int  // k of a unit of weights: two dwords, or three of 6-bit codes
	dwords int  // dwords of a unit
	words  int  // activation words of a unit and one row
	dots   func(dot *[MaxMR]int64, w []uint32, acts []uint64, nr, mr int)
}

func linear(p kernel.Problem, mr int) kernel.Func {
	l := linearKernel{f: p.Format, arith: p.Arith, k: p.K, mr: mr, nr: p.Layout.NR(), layout: p.Layout, span: 16, dwords: 2}
	if !p.Format.IsFloat() {
		l.groups = p.K / p.Format.Group
	}
	l.quads = p.Arith == kernel.A8 && p.Format.Bits == 4
	switch {
	case l.quads:
		l.words, l.dots = 4, dotQuads
	case p.Format.Bits == 4:
		l.words, l.dots = 8, dotPairs4
	case p.Format.Bits == 6:
		l.words, l.dwords, l.dots = 8, 3, dotPairs6
	default:
		l.words, l.span, l.dots = 4, 8, dotPairs8
	}
	pb, sb := p.Layout.PanelBytes(p.Format, p.K), p.Layout.ScaleBytes(p.Format, p.K)
	run := l.integers
	if p.Arith == kernel.F32 {
		run = l.floats(p.Layout)
	}
	return func(args unsafe.Pointer) {
		a := *(*kernel.LinearArgs)(args)
		run(&a, int(a.Panels), pb, sb)
	}
}

// integers runs A8 and A16.
func (l *linearKernel) integers(a *kernel.LinearArgs, panels, pb, sb int) {
	scratch := wordPool.Get().(*[]uint64)
	defer wordPool.Put(scratch)
	acts := l.spread(scratch, a.A)
	as := view[float32](a.AScale, l.groups*l.mr)
	sums := view[int32](a.ASum, l.groups*l.mr)
	out := make([][]float32, l.mr)
	for p := range panels {
		w := view[uint32](unsafe.Add(a.W, p*pb), pb/4)
		s := view[byte](unsafe.Add(a.S, p*sb), sb)
		for r := range out {
			out[r] = view[float32](unsafe.Add(a.Out, r*int(a.LDC)+p*l.nr*4), l.nr)
			clear(out[r])
		}
		for g := range l.groups {
			l.group(out, g, w, s, acts, as[g*l.mr:(g+1)*l.mr], sums[g*l.mr:(g+1)*l.mr])
		}
	}
}

// group adds the part of group g to out[row][channel].
func (l *linearKernel) group(out [][]float32, g int, w []uint32, scales []byte, acts []uint64, as []float32, sums []int32) {
	units := l.f.Group / l.span
	w = w[g*units*l.dwords*l.nr:][:units*l.dwords*l.nr]
	acts = acts[g*units*l.mr*l.words:][:units*l.mr*l.words]
	bias, mr, nr, dots := int64(l.f.Bias), l.mr, l.nr, l.dots
	for c := range nr {
		var dot [MaxMR]int64
		dots(&dot, w[c:], acts, nr, mr)
		scale, offset := scaleOf(l.layout, l.f, scales, c, g)
		for r, o := range out {
			sum := int64(sums[r])
			o[c] += as[r] * (scale*float32(dot[r]-bias*sum) + offset*float32(sum))
		}
	}
}

// The dots add to dot[r] the dot products of one channel, whose dwords are nr apart, with mr rows.
//
// dotQuads: 4-bit codes, int8 activations, four lanes of 16 bits. Two dwords of a channel hold 16
// codes, four words of four; a lane of their sum stays below 4*4*15*127 < 2^15.
func dotQuads(dot *[MaxMR]int64, w []uint32, acts []uint64, nr, mr int) {
	const mask = 0x000f000f000f000f
	for i := 0; i+nr < len(w); i += 2 * nr {
		x := uint64(w[i]) | uint64(w[i+nr])<<32
		x0, x1, x2, x3 := x&mask, x>>4&mask, x>>8&mask, x>>12&mask
		for r := range dot[:mr] {
			a := acts[4*r : 4*r+4 : 4*r+4]
			dot[r] += int64(x0*a[0]+x1*a[1]+x2*a[2]+x3*a[3]+1<<47) >> 48
		}
		acts = acts[4*mr:]
	}
}

// dotPairs4: 4-bit codes, int16 activations, two lanes of 32 bits, eight words of two.
func dotPairs4(dot *[MaxMR]int64, w []uint32, acts []uint64, nr, mr int) {
	const mask = 0x0000000f0000000f
	for i := 0; i+nr < len(w); i += 2 * nr {
		x := uint64(w[i]) | uint64(w[i+nr])<<32
		for r := range dot[:mr] {
			a := acts[8*r : 8*r+8 : 8*r+8]
			sum := x&mask*a[0] + x>>4&mask*a[1] + x>>8&mask*a[2] + x>>12&mask*a[3] +
				x>>16&mask*a[4] + x>>20&mask*a[5] + x>>24&mask*a[6] + x>>28&mask*a[7]
			dot[r] += int64(sum+1<<31) >> 32
		}
		acts = acts[8*mr:]
	}
}

// dotPairs6: 6-bit codes, two lanes of 32 bits, eight words of two.
func dotPairs6(dot *[MaxMR]int64, w []uint32, acts []uint64, nr, mr int) {
	const low, high = 0x0000000f0000000f, 0x0000000300000003
	for i := 0; i+2*nr < len(w); i += 3 * nr {
		x, h := uint64(w[i])|uint64(w[i+nr])<<32, uint64(w[i+2*nr])
		h |= h >> 4 << 32
		var q [8]uint64
		for j := range q { // nibble j is position j/2, plus 4 if it is a high one
			q[j] = x>>(4*j)&low | h>>(j/2*8+j%2*2)&high<<4
		}
		for r := range dot[:mr] {
			a := acts[8*r : 8*r+8 : 8*r+8]
			sum := q[0]*a[0] + q[1]*a[1] + q[2]*a[2] + q[3]*a[3] + q[4]*a[4] + q[5]*a[5] + q[6]*a[6] + q[7]*a[7]
			dot[r] += int64(sum+1<<31) >> 32
		}
		acts = acts[8*mr:]
	}
}

// dotPairs8: 8-bit codes, two lanes of 32 bits, four words of two.
func dotPairs8(dot *[MaxMR]int64, w []uint32, acts []uint64, nr, mr int) {
	const mask = 0x000000ff000000ff
	for i := 0; i+nr < len(w); i += 2 * nr {
		x := uint64(w[i]) | uint64(w[i+nr])<<32
		x0, x1, x2, x3 := x&mask, x>>8&mask, x>>16&mask, x>>24&mask
		for r := range dot[:mr] {
			a := acts[4*r : 4*r+4 : 4*r+4]
			dot[r] += int64(x0*a[0]+x1*a[1]+x2*a[2]+x3*a[3]+1<<31) >> 32
		}
		acts = acts[4*mr:]
	}
}

// wordPool and floatPool keep the scratch of calls.
var (
	wordPool  = sync.Pool{New: func() any { return new([]uint64) }}
	floatPool = sync.Pool{New: func() any { return new([]float32) }}
)

// sized returns *s with n elements, grown if need be.
func sized[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}

// spread turns the packed activations of the block into words: [pair of dwords][MR][words].
func (l *linearKernel) spread(scratch *[]uint64, block unsafe.Pointer) []uint64 {
	span := l.span
	words := sized(scratch, l.k/span*l.mr*l.words)
	steps := l.k * l.arith.Bytes() / 4
	packed := view[uint32](block, steps*l.mr)
	steps = span * l.arith.Bytes() / 4
	var q [16]int64
	for t := range l.k / span {
		for r := range l.mr {
			l.decode(q[:span], packed[t*steps*l.mr+r:])
			dst := words[(t*l.mr+r)*l.words:][:l.words]
			for j := range dst {
				switch {
				case l.quads:
					first := kernel.A16Order[2*j]
					dst[j] = uint64(q[first])<<48 + uint64(q[first+2])<<32 + uint64(q[first+8])<<16 + uint64(q[first+10])
				case span == 16: // nibble j of a dword is position j/2, plus 4 if it is a high one
					k := j/2 + j%2*4
					dst[j] = uint64(q[k])<<32 + uint64(q[k+8])
				default:
					dst[j] = uint64(q[j])<<32 + uint64(q[j+4])
				}
			}
		}
	}
	return words
}

// decode reads len(q) consecutive activation codes, a multiple of 8, of one row.
func (l *linearKernel) decode(q []int64, packed []uint32) {
	if l.arith == kernel.A8 {
		for i := range q {
			q[i] = int64(int8(packed[i/4*l.mr] >> (i % 4 * 8)))
		}
		return
	}
	for i := range q {
		// Place i of every 8 in step order holds position A16Order[i].
		q[i/8*8+kernel.A16Order[i%8]] = int64(int16(packed[i/2*l.mr] >> (i % 2 * 16)))
	}
}

// floats runs F32: each channel is dequantised once and multiplied with all rows of the block.
func (l *linearKernel) floats(lay kernel.Layout) func(a *kernel.LinearArgs, panels, pb, sb int) {
	return func(a *kernel.LinearArgs, panels, pb, sb int) {
		scratch := floatPool.Get().(*[]float32)
		defer floatPool.Put(scratch)
		buf := sized(scratch, (l.mr+1)*l.k)
		weights, acts := buf[:l.k], buf[l.k:]
		packed := view[float32](a.A, l.k*l.mr)
		for i, v := range packed {
			acts[i%l.mr*l.k+i/l.mr] = v
		}
		for p := range panels {
			codes := view[byte](unsafe.Add(a.W, p*pb), pb)
			scales := view[byte](unsafe.Add(a.S, p*sb), sb)
			for c := range l.nr {
				row(weights, lay, l.f, codes, scales, c)
				for r := range l.mr {
					o := (*float32)(unsafe.Add(a.Out, r*int(a.LDC)+(p*l.nr+c)*4))
					*o = dotFloats(weights, acts[r*l.k:(r+1)*l.k])
				}
			}
		}
	}
}

// dotFloats sums in eight chains, which bounds both latency and rounding error.
func dotFloats(x, y []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(x) >= 8 && len(y) >= 8 {
		a, b := x[:8:8], y[:8:8]
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		x, y = x[8:], y[8:]
	}
	for i, v := range x {
		s0 += v * y[i]
	}
	return (s0 + s4) + (s1 + s5) + ((s2 + s6) + (s3 + s7))
}
