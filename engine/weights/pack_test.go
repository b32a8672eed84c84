package weights

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref"
)

// file is parts of a tensor as stored: rows of blocks, each part of a type, before a guard page.
type file struct {
	t      *Tensor
	blocks []kernel.Block
	parts  []*jit.Mem
}

// newFile stores random finite weights.
func newFile(t rapidOrTest, w *Tensor, blocks []kernel.Block, rng *rand.Rand) *file {
	f := &file{t: w, blocks: blocks}
	for i, p := range w.Parts {
		m, err := jit.GuardBytes(p.Rows * f.rowBytes(i))
		if err != nil {
			t.Fatal(err)
		}
		f.parts = append(f.parts, m)
		for j := range m.Bytes() {
			m.Bytes()[j] = byte(rng.Uint32()) &^ 0x40 // no exponent of ones in any float
		}
	}
	return f
}

func (f *file) free() {
	for _, m := range f.parts {
		m.Free()
	}
}

func (f *file) rowBytes(part int) int {
	return f.t.K / f.blocks[part].Weights() * f.blocks[part].Bytes()
}

func (f *file) Blocks(part, n int) (kernel.Block, []byte) {
	size := f.rowBytes(part)
	n = f.t.Parts[part].Rows - 1 - n // in no order that a stride describes
	return f.blocks[part], f.parts[part].Bytes()[n*size:][:size]
}

func (f *file) Row(part, n int, dst model.Row) error {
	b, row := f.Blocks(part, n)
	return ref.Decode(b, f.t.Format, row, dst.Codes, dst.ScaleSet)
}

// packKernels are the portable kernels for codes and some blocks.
func packKernels(t rapidOrTest, w *Tensor, blocks ...kernel.Block) Kernels {
	k := Kernels{}
	for _, b := range append(blocks, kernel.BlockNone) {
		p := kernel.Problem{Op: kernel.OpPack, Format: w.Format, Layout: w.Layout, Source: b}
		fns, err := ref.Build(&kernel.Artifact{Kind: kernel.KindGo, Key: kernel.ArtifactKey{Problem: p}})
		if err != nil {
			t.Fatal(err)
		}
		k[b] = fns[kernel.EntryMain]
	}
	return k
}

// together are block types of one format.
var together = [][]kernel.Block{
	{kernel.BlockQ4_0}, {kernel.BlockQ4_K}, {kernel.BlockQ6_K}, {kernel.BlockQ3_K},
	{kernel.BlockQ8_0, kernel.BlockQ5_0, kernel.BlockIQ4NL, kernel.BlockF16},
	{kernel.BlockQ4_1, kernel.BlockBF16, kernel.BlockF32},
}

// TestPackBlocks: a tensor of several parts of several types comes out as when its rows are made as
// codes first, whatever the shape.
func TestPackBlocks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		types := rapid.SampledFrom(together).Draw(rt, "types")
		unit := max(256, types[0].Weights())
		s := model.Segment{Role: "q", Format: types[0].Format(), K: unit * rapid.IntRange(1, 3).Draw(rt, "K")}
		if s.Format.Super == kernel.SuperNone {
			s.K = 32 * rapid.IntRange(1, 9).Draw(rt, "K/32")
		}
		var blocks []kernel.Block
		for range rapid.IntRange(1, 3).Draw(rt, "parts") {
			rows := rapid.IntRange(1, 70).Draw(rt, "rows")
			s.Parts, s.N = append(s.Parts, model.Part{Rows: rows}), s.N+rows
			blocks = append(blocks, rapid.SampledFrom(types).Draw(rt, "type"))
		}
		l := kernel.Layout{Lanes: 16, Cols: rapid.SampledFrom([]int{1, 2, 4}).Draw(rt, "cols")}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var got [2]*Tensor
		var src *file
		for i, kernels := range [][]kernel.Block{blocks, nil} {
			w, err := NewTensor(s, l)
			if err != nil {
				rt.Fatal(err)
			}
			b, err := mem.New(w.Room(), false)
			if err != nil {
				rt.Fatal(err)
			}
			defer b.Free()
			w.Place(b)
			if src == nil {
				src = newFile(rt, w, blocks, rng)
				defer src.free()
			}
			p := NewPacker(rapid.IntRange(1, 100).Draw(rt, "rows at a time"))
			defer p.Close()
			if err := p.Pack(w, 0, w.Panels, src, packKernels(rt, w, kernels...)); err != nil {
				rt.Fatal(err)
			}
			got[i] = w
		}
		if !bytes.Equal(got[0].Codes, got[1].Codes) || !bytes.Equal(got[0].Scales, got[1].Scales) {
			rt.Fatal("the panels differ")
		}
	})
}

// TestPackBlocksLong: a panel of more bytes than a call may take is packed in several.
func TestPackBlocksLong(t *testing.T) {
	const k = 32 << 10
	w := tensor(t, "q", 64, k, kernel.FormatQ4_0, kernel.Layout{Lanes: 16, Cols: 4})
	b, err := mem.New(w.Room(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	w.Place(b)
	src := newFile(t, w, []kernel.Block{kernel.BlockQ4_0}, rand.New(rand.NewPCG(1, 1)))
	defer src.free()
	calls, longest, kernels := 0, 0, packKernels(t, w, kernel.BlockQ4_0)
	inner := kernels[kernel.BlockQ4_0]
	kernels[kernel.BlockQ4_0] = func(args unsafe.Pointer) {
		calls, longest = calls+1, max(longest, int((*kernel.PackArgs)(args).K))
		inner(args)
	}
	p := NewPacker(64)
	defer p.Close()
	if err := p.Pack(w, 0, 1, src, kernels); err != nil {
		t.Fatal(err)
	}
	if bytes := w.Layout.TensorBytes(w.Format, 64, longest); calls < 2 || bytes > kernel.MaxCallBytes {
		t.Fatalf("%d calls of %d bytes at most", calls, bytes)
	}
	m, err := ref.Unpack(w.Layout, w.Format, 64, k, w.Codes, w.Scales)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Row{Codes: make([]byte, k), ScaleSet: w.Format.NewScaleSet(k)}
	for n := range 64 {
		if err := src.Row(0, n, want); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Codes[n*k:(n+1)*k], want.Codes) || !slices.Equal(m.Scales[n*k/32:(n+1)*k/32], want.Scales) {
			t.Fatalf("row %d differs", n)
		}
	}
}

// checked is a file whose rows say which scale is not finite.
type checked struct{ *file }

func (c checked) Row(part, n int, dst model.Row) error {
	if err := c.file.Row(part, n, dst); err != nil {
		return err
	}
	for i, s := range dst.Scales {
		if s&0x7c00 == 0x7c00 {
			return fmt.Errorf("row %d: scale %d is not finite", n, i)
		}
	}
	return nil
}

// TestPackBlocksNotFinite: a scale that is infinite, or a weight that has none, is an error of its row.
func TestPackBlocksNotFinite(t *testing.T) {
	for _, b := range []kernel.Block{kernel.BlockQ4_0, kernel.BlockQ4_K, kernel.BlockQ6_K, kernel.BlockF16} {
		rapid.Check(t, func(rt *rapid.T) {
			f := b.Format()
			if f.IsFloat() {
				f = kernel.Asym(32)
			}
			w := tensor(rt, "q", 37, 512, f, kernel.Layout{Lanes: 16, Cols: 2})
			m, err := mem.New(w.Room(), false)
			if err != nil {
				rt.Fatal(err)
			}
			defer m.Free()
			w.Place(m)
			src := newFile(rt, w, []kernel.Block{b}, rand.New(rand.NewPCG(1, 1)))
			defer src.free()
			n := rapid.IntRange(0, w.N-1).Draw(rt, "row")
			_, row := src.Blocks(0, n)
			at := map[kernel.Block]int{kernel.BlockQ6_K: 208}[b]
			row[at], row[at+1] = 0, 0x7c
			p := NewPacker(64)
			defer p.Close()
			err = p.Pack(w, 0, w.Panels, checked{src}, packKernels(rt, w, b))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("row %d: scale 0 ", n)) {
				rt.Fatalf("row %d of %s: %v", n, b, err)
			}
		})
	}
}
