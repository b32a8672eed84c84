package kerneltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Golden is a quick check of an artifact before its first use: one random case at the artifact's own
// size. A linear artifact computes one call's channels and rows at its own reduction length; every
// channel and every row is compared at least once, so that each accumulator of the register tile is.
// Check is the thorough one.
func Golden(mem Allocator, run Runner, a *kernel.Artifact) error {
	b := newBench(mem, run, a)
	dim, elem := b.p.Dim, b.p.Elem.Bytes()
	cases := map[kernel.Op]func() error{
		kernel.OpLinear: b.goldenLinear,
		kernel.OpQuant:  func() error { return b.quantCase(b.normals(b.p.K, 1), b.p.Act.MR-1, false) },
		kernel.OpRope:   func() error { return b.ropeCase(2, true, dim*elem, elem) },
		kernel.OpAttn: func() error {
			b.every = max(1, b.p.M/8)
			return b.attnCase([]int{1, 1}, 1, func(r, n int) (int, int) { return 3 + r%15, n - 2 - r%7 })
		},
		kernel.OpScale: func() error { return b.scaleCase(67, false) },
		kernel.OpPack:  b.goldenPack,
	}
	f := cases[b.p.Op]
	if f == nil {
		return nil // probes of the ceilings compute nothing
	}
	var errs []error
	b.try(&errs, "golden", f)
	return errors.Join(errs...)
}

// goldenPack packs a panel of codes or of blocks.
func (b *bench) goldenPack() error {
	if n := b.p.Source.Weights(); n > 0 {
		return b.blockCase(256, 40)
	}
	return b.packCase(128, 40)
}

// goldenLinear fills the packed weights and activations with random codes, and compares sums of
// products in float64 along the diagonals of the tile.
func (b *bench) goldenLinear() error {
	p, l, act := b.p, b.p.Layout, b.act()
	if err := l.Validate(p.Format); err != nil {
		return err
	}
	streams := max(b.e.Streams, 1)
	panels := streams
	if streams > 1 {
		panels++ // for "tail"
	}
	pb, sb := l.PanelBytes(p.Format, p.K), l.ScaleBytes(p.Format, p.K)
	codes, scales := b.alloc(panels*pb), b.alloc(panels*sb)
	b.noise(codes.Mem, p.Format.Bits, p.Format.Scale)
	b.scaleNoise(scales.Mem)
	acts := b.goldenActs(act)
	ac, as32, sums := acts.Pack()
	aBuf, asBuf, sumBuf := put(b, ac), put(b, as32), put(b, sums)
	w, stride := codes, pb
	if b.e.Panel {
		w, stride = b.fill(panels*b.e.PanelStride), b.e.PanelStride
		b.call(kernel.EntryUnpack, codes.Addr, scales.Addr, w.Addr, uint64(panels))
	}
	ldc := panels * l.NR() * 4
	out := b.fill(act.MR * ldc)
	tmp := b.fill((b.e.ScratchBytes + 63) &^ 63)
	calls := func(entry string, first, n int) {
		b.call(entry, w.at(first*stride), scales.at(first*sb), aBuf.Addr, asBuf.Addr, sumBuf.Addr,
			out.at(first*l.NR()*4), uint64(n), uint64(ldc), tmp.Addr)
	}
	calls(kernel.EntryMain, 0, streams)
	if panels > streams {
		calls(kernel.EntryTail, streams, 1)
	}
	if b.err != nil {
		return b.err
	}
	return b.goldenRows(acts, codes.Mem, scales.Mem, as[float32](out))
}

// goldenRows compares channel n with row n%MR, and further channels until every row was seen.
func (b *bench) goldenRows(acts *ref.Acts, codes, scales []byte, got []float32) error {
	k, mr := b.p.K, b.e.MR
	width := len(got) / mr
	for i, v := range got {
		if v-v != 0 {
			return fmt.Errorf("row %d, channel %d: got %g", i/width, i%width, v)
		}
	}
	bound := integerBound
	if b.p.Arith == kernel.F32 {
		bound = floatBound
	}
	x := acts.Values()
	w := make([]float32, k)
	for i := range max(width, mr) {
		m, n := i%mr, i%width
		if err := ref.Row(w, b.p.Layout, b.p.Format, codes, scales, n); err != nil {
			return err
		}
		var sum, abs float64
		for j, v := range x[m] {
			t := v * float64(w[j])
			sum += t
			abs += math.Abs(t)
		}
		if err := within(float64(got[m*width+n]), sum, 2*bound*abs); err != nil {
			return fmt.Errorf("row %d, channel %d: %w", m, n, err)
		}
	}
	return nil
}

// goldenActs are MR rows of random activations.
func (b *bench) goldenActs(act kernel.Act) *ref.Acts {
	a := &ref.Acts{Act: act, M: act.MR, K: b.p.K}
	qmax := act.Arith.QMax()
	for range act.MR {
		raw := Buffer{Mem: make([]byte, 4*a.K)}
		b.noise(raw.Mem, 32, "")
		if act.Arith == kernel.F32 {
			a.Floats = append(a.Floats, as[float32](raw))
			continue
		}
		codes := as[int32](raw)
		for i, v := range codes {
			codes[i] = v % int32(qmax+1)
		}
		s := make([]float32, act.Groups(a.K))
		for g := range s {
			s[g] = (1 + b.r.Float32()) / float32(qmax)
		}
		a.Codes, a.Scales = append(a.Codes, codes), append(a.Scales, s)
	}
	return a
}

// scaleNoise fills the scales of panels: random numbers of 8 bits after each block of super-scales.
func (b *bench) scaleNoise(mem []byte) {
	f, l := b.p.Format, b.p.Layout
	if f.Super == kernel.SuperNone {
		b.noise(mem, 16, f.Scale)
		return
	}
	size, head := l.ScaleBytes(f, kernel.SuperGroup), l.SubAt(f, 0, 0)
	for ; len(mem) > 0; mem = mem[size:] {
		b.noise(mem[:head], 16, f.Scale)
		b.noise(mem[head:size], 8, "")
	}
}

// noise fills mem with random codes of some bits, or with floats between 1/8 and 2 of either sign.
func (b *bench) noise(mem []byte, bits int, t kernel.ScaleType) {
	keep, set := ^uint64(0), uint64(0)
	switch {
	case bits == 32:
		keep, set = 0x81ffffff81ffffff, 0x3e0000003e000000
	case bits == 16 && t == kernel.ScaleBF16:
		keep, set = 0x81ff81ff81ff81ff, 0x3e003e003e003e00
	case bits == 16:
		keep, set = 0x8fff8fff8fff8fff, 0x3000300030003000
	}
	for len(mem) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], b.r.Uint64()&keep|set)
		mem = mem[copy(mem, word[:]):]
	}
}
