package ref

import (
	"sync/atomic"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
)

// Units of the portable probes, for Exec.Unit.
const (
	StreamUnit = 64 // bytes
	PeakUnit   = 64 // multiply-accumulates of one iteration
)

// scale is OpScale.
func scale(args unsafe.Pointer) {
	a := *(*kernel.ScaleArgs)(args)
	f, out := *(*float32)(a.F), view[float32](a.Out, int(a.N))
	for i, v := range view[float32](a.X, int(a.N)) {
		out[i] = v * f
	}
}

// pack is OpPack.
func pack(p kernel.Problem) kernel.Func {
	if p.Source != kernel.BlockNone {
		return packBlocks(p)
	}
	l, f := p.Layout, p.Format
	return func(args unsafe.Pointer) {
		a := *(*kernel.PackArgs)(args)
		k := int(a.K)
		dst := view[byte](a.Dst, l.PanelBytes(f, k))
		for c := range l.NR() {
			packCodes(dst, l, f, c, view[uint8](unsafe.Add(a.Src, c*int(a.SrcStride)), k))
		}
	}
}

// sink keeps the probes' results alive.
var sink atomic.Uint64

// stream is OpStream: it reads every word once.
func stream(args unsafe.Pointer) {
	a := *(*kernel.ProbeArgs)(args)
	var s [4]uint64
	for w := view[uint64](a.Buf, int(a.Bytes)/8); len(w) >= 8; w = w[8:] {
		s[0] += w[0] + w[4]
		s[1] += w[1] + w[5]
		s[2] += w[2] + w[6]
		s[3] += w[3] + w[7]
	}
	sink.Store(s[0] + s[1] + s[2] + s[3])
}

// peak is OpPeak: the arithmetic of the portable integer kernels, four codes to a product, on
// operands that stay in the first level cache.
func peak(args unsafe.Pointer) {
	a := *(*kernel.ProbeArgs)(args)
	w := view[uint64](a.Buf, 16)
	var s0, s1, s2, s3 uint64
	for n := range uint64(a.Iters) {
		for i := 0; i < 16; i += 4 {
			s0 += w[i] * n
			s1 += w[i+1] * n
			s2 += w[i+2] * n
			s3 += w[i+3] * n
		}
	}
	sink.Store(s0 + s1 + s2 + s3)
}
