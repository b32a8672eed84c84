package kerneltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Scale checks an OpScale artifact.
func Scale(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

// Pack checks an OpPack artifact.
func Pack(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

// Probe checks that an OpStream or OpPeak artifact stays within its buffer and returns.
func Probe(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

func (b *bench) scale() []error {
	var errs []error
	for _, n := range []int{1, 3, 8, 15, 16, 17, 64, 576, 1031} {
		for _, inPlace := range []bool{false, true} {
			b.try(&errs, fmt.Sprintf("%d floats, in place %t", n, inPlace), func() error { return b.scaleCase(n, inPlace) })
		}
	}
	return errs
}

func (b *bench) scaleCase(n int, inPlace bool) error {
	x, f := b.normals(n, 3), float32(-1.7)
	xBuf := put(b, x)
	out := xBuf
	if !inPlace {
		out = b.fill(4 * n)
	}
	b.call(kernel.EntryMain, xBuf.Addr, out.Addr, put(b, []float32{f}).Addr, uint64(n))
	for i, v := range as[float32](out) {
		if b.err == nil && v != x[i]*f {
			return fmt.Errorf("element %d: got %g, want %g", i, v, x[i]*f)
		}
	}
	return nil
}

func (b *bench) pack() []error {
	var errs []error
	ks, c := []int{16, 32, 48, 128, 576}, b.packCase
	if t := b.p.Source; t != kernel.BlockNone {
		if t.Weights() == 0 {
			return []error{fmt.Errorf("no block type %q", t)}
		}
		unit := max(t.Weights(), b.p.Format.Group)
		ks, c = []int{unit, 2 * unit, 7 * unit}, b.blockCase
	}
	for _, k := range ks {
		for _, gap := range []int{0, 40} {
			b.try(&errs, fmt.Sprintf("K = %d, rows %d bytes apart", k, gap), func() error { return c(k, gap) })
		}
	}
	return errs
}

// blockCase packs rows of random blocks, gap bytes between them, in no order and one of them twice.
func (b *bench) blockCase(k, gap int) error {
	t, l, f := b.p.Source, b.p.Layout, b.p.Format
	nr, size := l.NR(), k/t.Weights()*t.Bytes()
	src := b.alloc((nr-1)*(size+gap) + size)
	b.stored(src.Mem)
	order := b.r.Perm(nr)
	order[nr-1] = order[0]
	w, err := ref.NewMatrix(f, nr, k)
	if err != nil {
		return err
	}
	rows := make([]int64, nr)
	for c, n := range order {
		rows[c] = int64(n * (size + gap))
		row := src.Mem[n*(size+gap):][:size]
		if err := ref.Decode(t, f, row, w.Codes[c*k:(c+1)*k], w.Slice(f, c*k, (c+1)*k)); err != nil {
			return err
		}
	}
	codes, scales := make([]byte, l.PanelBytes(f, k)), make([]byte, l.ScaleBytes(f, k))
	if err := ref.PackPanel(codes, scales, l, w, 0); err != nil {
		return err
	}
	dst, dstScales := b.fill(len(codes)), b.fill(len(scales))
	b.call(kernel.EntryMain, src.Addr, dst.Addr, uint64(k), 0, put(b, rows).Addr, dstScales.Addr)
	switch {
	case b.err != nil:
		return nil
	case !bytes.Equal(dst.Mem, codes):
		return fmt.Errorf("the codes of the panel differ: %s", firstDiff(dst.Mem, codes))
	case !bytes.Equal(dstScales.Mem, scales):
		return fmt.Errorf("the scales of the panel differ: %s", firstDiff(dstScales.Mem, scales))
	}
	return nil
}

// stored fills rows of blocks: random bytes for quantised ones. Floats are of widely different sizes,
// some groups all equal or too small for a scale.
func (b *bench) stored(mem []byte) {
	t := b.p.Source
	if !t.Format().IsFloat() {
		for i := range mem {
			mem[i] = byte(b.r.Uint32())
		}
		return
	}
	for ; len(mem) >= t.Bytes(); mem = mem[t.Bytes():] {
		size, flat := math.Exp2(float64(b.r.IntN(30)-26)), b.r.IntN(8) == 0
		x := b.normals(t.Weights(), size)
		for i := range x {
			if flat {
				x[i] = x[0]
			}
			if t == kernel.BlockF32 {
				binary.LittleEndian.PutUint32(mem[4*i:], math.Float32bits(x[i]))
			} else {
				binary.LittleEndian.PutUint16(mem[2*i:], ref.F32ToScale(t.Format().Scale, x[i]))
			}
		}
	}
}

// firstDiff says where a differs from b, of the same length.
func firstDiff(got, want []byte) string {
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d of %d is %#02x, want %#02x", i, len(got), got[i], want[i])
		}
	}
	return "nowhere"
}

func (b *bench) packCase(k, gap int) error {
	f, nr := b.p.Format, b.p.Layout.NR()
	src := b.alloc((nr-1)*(k+gap) + k)
	want := make([]byte, b.p.Layout.PanelBytes(f, k))
	for i := range src.Mem {
		src.Mem[i] = uint8(b.r.IntN(int(b.maxCode()) + 1))
	}
	for i := range nr * k {
		q := src.Mem[i/k*(k+gap)+i%k]
		if f.Bits == 6 {
			off, shift := b.p.Layout.UpperAt(i/k, i%k)
			want[off] |= q >> 4 << shift
			q &= 15
		}
		off, shift := b.p.Layout.CodeAt(f, i/k, i%k)
		want[off] |= q << shift
	}
	dst := b.fill(len(want))
	b.call(kernel.EntryMain, src.Addr, dst.Addr, uint64(k), uint64(k+gap), 0, 0)
	if b.err == nil && !bytes.Equal(dst.Mem, want) {
		return fmt.Errorf("the packed panel differs")
	}
	return nil
}

func (b *bench) stream() []error {
	var errs []error
	for _, units := range []int{1, 2, 7, 64} {
		b.try(&errs, fmt.Sprintf("%d units", units), func() error {
			n := units * max(b.e.Unit, 1)
			b.call(kernel.EntryMain, b.fill(n).Addr, uint64(n), 0)
			return nil
		})
	}
	return errs
}

func (b *bench) peak() []error {
	var errs []error
	for _, iters := range []int{1, 1000} {
		b.try(&errs, fmt.Sprintf("%d iterations", iters), func() error {
			b.call(kernel.EntryMain, b.alloc(4096).Addr, 4096, uint64(iters))
			if b.e.Unit < 1 {
				return fmt.Errorf("Exec.Unit is %d, want multiply-accumulates of an iteration", b.e.Unit)
			}
			return nil
		})
	}
	return errs
}
