package x86

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// packed is a panel of blocks, in memory that ends where an inaccessible page begins.
type packed struct {
	p           kernel.Problem
	k           int
	src         []byte
	rows        []int64
	dst, scales []byte
}

func newPacked(t testing.TB, rng *rand.Rand, p kernel.Problem, blocks, gap int) *packed {
	nr, size := p.Layout.NR(), blocks*p.Source.Bytes()
	k := blocks * p.Source.Weights()
	x := &packed{p: p, k: k, src: guarded[byte](t, (nr-1)*(size+gap)+size), rows: guarded[int64](t, nr),
		dst: guarded[byte](t, p.Layout.PanelBytes(p.Format, k)), scales: guarded[byte](t, p.Layout.ScaleBytes(p.Format, k))}
	for i := range x.src {
		x.src[i] = byte(rng.Uint32())
	}
	for c, n := range rng.Perm(nr) {
		if p.Source.Format().IsFloat() {
			x.floats(rng, x.src[n*(size+gap):][:size])
		}
		x.rows[c] = int64(n * (size + gap))
	}
	return x
}

// floats makes sane numbers of random bytes: of one size in a group, some groups constant or 0. No
// scale is a subnormal half: ties of those the emulator rounds up.
func (x *packed) floats(rng *rand.Rand, row []byte) {
	size := x.p.Source.Bytes() / x.p.Source.Weights()
	for ; len(row) > 0; row = row[32*size:] {
		group, kind, e := row[:32*size], rng.IntN(8), byte(rng.IntN(20))
		for i := 0; i < len(group); i += size {
			v := group[i : i+size]
			if x.p.Source == kernel.BlockF16 {
				v[1] = v[1]&0x83 | (8+e%7)<<2
			} else {
				v[size-1] = v[size-1]&0x80 | (61 + e%7)
			}
			if kind == 0 {
				copy(v, group[:size])
			} else if kind == 1 {
				clear(v)
			}
		}
	}
}

func (x *packed) run(t testing.TB, f func(unsafe.Pointer)) {
	_, args := newArgs(t, kernel.PackArgs{Src: ptr(x.src), Dst: ptr(x.dst), K: int64(x.k), Rows: ptr(x.rows), Scales: ptr(x.scales)})
	f(args)
}

// check compares with the oracle: rows decoded to a matrix, the matrix packed.
func (x *packed) check() error {
	l, f, k := x.p.Layout, x.p.Format, x.k
	w, err := ref.NewMatrix(f, l.NR(), k)
	if err != nil {
		return err
	}
	size := k / x.p.Source.Weights() * x.p.Source.Bytes()
	for c, at := range x.rows {
		if err := ref.Decode(x.p.Source, f, x.src[at:][:size], w.Codes[c*k:(c+1)*k], w.Slice(f, c*k, (c+1)*k)); err != nil {
			return err
		}
	}
	codes, scales, err := ref.Pack(l, w)
	if err == nil && !(bytes.Equal(codes, x.dst) && bytes.Equal(scales, x.scales)) {
		err = fmt.Errorf("%s, K = %d: the panel differs", x.p, k)
	}
	return err
}

// blockProblems are all stored rows and what they make, in one layout.
var blockProblems = func() (out []kernel.Problem) {
	for _, p := range kerneltest.SmallProblems(kernel.Layout{Lanes: 16, Cols: 1}) {
		if p.Source != kernel.BlockNone {
			out = append(out, p)
		}
	}
	return append(out, kernel.Problem{Op: kernel.OpPack, Layout: kernel.Layout{Lanes: 16, Cols: 1}, Source: kernel.BlockF32,
		Format: kernel.Format{Bits: 6, Group: 32, Bias: 32, Scale: kernel.ScaleF16}})
}()

// TestPackBlocks packs random rows of every block type, on the emulator where this machine lacks an
// ISA.
func TestPackBlocks(t *testing.T) {
	eachRig(t, func(r *rig) {
		rng := rand.New(rand.NewPCG(3, 3))
		for i, p := range blockProblems {
			for j, cols := range []int{1, 2, 4} {
				if r.thin(i+j, 2) {
					continue
				}
				p.Layout.Cols = cols
				f, _ := emitted(r, r.isa, p, nil)
				for _, blocks := range []int{1, 3} {
					x := newPacked(r, rng, p, blocks, 14*(blocks-1))
					x.run(r, f)
					r.check(x.check)
					r.next()
				}
			}
		}
	})
}

// TestPackBlocksAgrees: random numbers of blocks, gaps and columns.
func TestPackBlocksAgrees(t *testing.T) {
	eachISA(t, func(t *testing.T, isa ISA) {
		entries := map[kernel.Problem]func(unsafe.Pointer){}
		rapid.Check(t, func(rt *rapid.T) {
			p := rapid.SampledFrom(blockProblems).Draw(rt, "problem")
			p.Layout.Cols = rapid.IntRange(1, 5).Draw(rt, "cols")
			if entries[p] == nil {
				entries[p], _ = emitted(t, isa, p, nil)
			}
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
			x := newPacked(t, rng, p, rapid.IntRange(1, 20).Draw(rt, "blocks"), rapid.IntRange(0, 70).Draw(rt, "gap"))
			x.run(t, entries[p])
			if err := x.check(); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

// BenchmarkPackBlocks packs panels of 16 rows of 2048 weights, a source that fits the second level
// cache.
func BenchmarkPackBlocks(b *testing.B) {
	for _, s := range isas {
		if !s.native {
			continue
		}
		for _, p := range blockProblems {
			b.Run(fmt.Sprintf("%s/%s-%s", s.isa.Name, p.Source, p.Format), func(b *testing.B) {
				f, _ := emitted(b, s.isa, p, nil)
				x := newPacked(b, rand.New(rand.NewPCG(3, 3)), p, 2048/p.Source.Weights(), 0)
				_, args := newArgs(b, kernel.PackArgs{Src: ptr(x.src), Dst: ptr(x.dst), K: int64(x.k), Rows: ptr(x.rows), Scales: ptr(x.scales)})
				for b.Loop() {
					f(args)
				}
				b.ReportMetric(float64(b.N*len(x.src))/b.Elapsed().Seconds()/1e9, "GB/s")
				b.ReportMetric(float64(b.N*16*2048)/b.Elapsed().Seconds()/1e9, "Gweights/s")
			})
		}
	}
}
