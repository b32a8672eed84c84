package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/tilewright/tilewright/engine/exec"
	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/engine/quant"
	"github.com/tilewright/tilewright/engine/weights"
	"github.com/tilewright/tilewright/kernel"
)

// blockFile is a file of blocks of one type, each a row.
type blockFile struct {
	typ  gguf.Type
	data []byte
}

func (f blockFile) Blocks(_, n int) (kernel.Block, []byte) {
	return quant.BlockOf(f.typ), f.data[n*f.typ.BlockBytes():][:f.typ.BlockBytes()]
}

func (f blockFile) Row(int, int, model.Row) error {
	return errors.New("a row was not packed from its blocks")
}

// TestPackBlockFiles packs the shared blocks of every quantised type with every backend of this
// machine: each weight comes back bit for bit.
func TestPackBlockFiles(t *testing.T) {
	n := newNative()
	shared := gguftest.SharedBlocks(t)
	for _, name := range n.Names() {
		for _, b := range shared {
			if typ := gguf.Type(b.Type); !typ.IsFloat() {
				t.Run(name+"/"+b.Name, func(t *testing.T) { packBlockFile(t, n, name, blockFile{typ, b.Data}, b.Want) })
			}
		}
	}
}

// floatFile is rows of f32.
type floatFile struct {
	k    int
	data []byte
}

func (f floatFile) Blocks(_, n int) (kernel.Block, []byte) {
	return kernel.BlockF32, f.data[4*n*f.k:][:4*f.k]
}

func (f floatFile) Row(_, n int, _ model.Row) error { return fmt.Errorf("row %d is asked for", n) }

// TestPackBadFloat: one weight that is no number is an error wherever it lies, in the last panel too,
// where rows are missing.
func TestPackBadFloat(t *testing.T) {
	const k, rows = 64, 19
	n := newNative()
	p := kernel.Problem{Op: kernel.OpPack, Format: kernel.Asym(32), Layout: kernel.Layout{Lanes: 16, Cols: 1}, Source: kernel.BlockF32}
	for _, name := range n.Names() {
		a, err := n.Emit(t.Context(), kernel.Choice{Problem: p, Backend: name})
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w, packer, pack := packerOf(t, a, rows, k)
		packWith := func(bad int) error {
			f := floatFile{k, make([]byte, 4*k*rows)}
			for i := range k * rows {
				v := float64(i%7) - 3
				if i == bad {
					v = math.NaN()
				}
				binary.LittleEndian.PutUint32(f.data[4*i:], math.Float32bits(float32(v)))
			}
			return packer.Pack(w, 0, w.Panels, f, weights.Kernels{p.Source: pack})
		}
		if err := packWith(-1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for row := range rows {
			if packWith(row*k+(11*row)%k) == nil {
				t.Errorf("%s: a NaN in row %d was packed", name, row)
			}
		}
	}
}

// packerOf makes a tensor of rows of k weights, a packer, and the code of an artifact of OpPack for both.
func packerOf(t *testing.T, a *kernel.Artifact, rows, k int) (*weights.Tensor, *weights.Packer, kernel.Func) {
	t.Helper()
	entries, free, err := exec.Entries(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	p := a.Key.Problem
	w, err := weights.NewTensor(model.Segment{Role: "q", Parts: []model.Part{{Rows: rows}}, Format: p.Format, N: rows, K: k}, p.Layout)
	if err != nil {
		t.Fatal(err)
	}
	block, err := mem.New(w.Room(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(block.Free)
	w.Place(block)
	packer := weights.NewPacker(64)
	t.Cleanup(packer.Close)
	return w, packer, entries[kernel.EntryMain]
}

func packBlockFile(t *testing.T, n native, backend string, f blockFile, want []float32) {
	b, rows := quant.BlockOf(f.typ), len(f.data)/f.typ.BlockBytes()
	for _, cols := range []int{1, 4} {
		p := kernel.Problem{Op: kernel.OpPack, Format: b.Format(), Layout: kernel.Layout{Lanes: 16, Cols: cols}, Source: b}
		a, err := n.Emit(t.Context(), kernel.Choice{Problem: p, Backend: backend})
		if errors.Is(err, kernel.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		w, packer, pack := packerOf(t, a, rows, b.Weights())
		if err := packer.Pack(w, 0, w.Panels, f, weights.Kernels{b: pack}); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, w.K)
		for r := range rows {
			if err := w.Row(r, got); err != nil {
				t.Fatal(err)
			}
			for k, v := range got {
				if x := want[r*w.K+k]; v != x {
					t.Fatalf("row %d, weight %d is %v, want %v", r, k, v, x)
				}
			}
		}
	}
}
