package x86

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilewright/tilewright/internal/bochs"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// emulated is one artifact with operands: three panels and one block of rows, run by unpack, main
// and tail as needed.
type emulated struct {
	p      kernel.Problem
	a      *kernel.Artifact
	matrix *ref.Matrix
	acts   *ref.Acts
	out    []float32
}

// newEmulated makes random operands; every third has extreme codes and activations.
func newEmulated(t testing.TB, r *rand.Rand, a *kernel.Artifact) *emulated {
	p := a.Key.Problem
	e := &emulated{p: p, a: a}
	var err error
	if e.matrix, err = ref.NewMatrix(p.Format, p.N, p.K); err != nil {
		t.Fatal(err)
	}
	top, extreme := 1<<min(p.Format.Bits, 8)-1, r.IntN(3) == 0
	for i := range e.matrix.Codes {
		e.matrix.Codes[i] = uint8(r.IntN(top + 1))
		if extreme {
			e.matrix.Codes[i] = uint8(top * r.IntN(2))
		}
	}
	for i := range e.matrix.Scales {
		e.matrix.Scales[i] = ref.F32ToScale(p.Format.Scale, float32(r.NormFloat64()))
	}
	for i := range e.matrix.Offsets {
		e.matrix.Offsets[i] = ref.F32ToScale(p.Format.Scale, float32(r.NormFloat64()))
	}
	for i := range e.matrix.Subs {
		e.matrix.Subs[i] = uint8(r.Uint32())
	}
	for i := range e.matrix.SubOffsets {
		e.matrix.SubOffsets[i] = uint8(r.Uint32())
	}
	for i := range e.matrix.Floats {
		e.matrix.Floats[i] = float32(r.NormFloat64())
	}
	x := make([][]float32, a.Exec.MR)
	for m := range x {
		x[m] = make([]float32, p.K)
		for k := range x[m] {
			x[m][k] = float32(r.NormFloat64())
			if extreme {
				x[m][k] = float32(1 - 2*(m%2))
			}
		}
	}
	e.acts = ref.Quantize(kernel.Act{Arith: p.Arith, Group: p.Format.Group, MR: a.Exec.MR}, x)
	return e
}

// add queues the calls of an artifact.
func (e *emulated) add(t testing.TB, b *bochs.Batch) {
	l, x := e.p.Layout, e.a.Exec
	codes, scales, err := ref.Pack(l, e.matrix)
	if err != nil {
		t.Fatal(err)
	}
	panels, pb := l.Panels(e.p.N), l.PanelBytes(e.p.Format, e.p.K)
	sb := l.ScaleBytes(e.p.Format, e.p.K)
	if x.Panel {
		u := make([]byte, panels*x.PanelStride)
		b.CallArtifact(t, e.a, kernel.EntryUnpack, &kernel.UnpackArgs{W: ptr(codes), S: ptr(scales), Out: ptr(u), Panels: int64(panels)},
			codes, scales, u)
		codes, pb = u, x.PanelStride
	}
	acts, as, sums := e.acts.Pack()
	e.out = make([]float32, x.MR*panels*l.NR())
	for i := range e.out {
		e.out[i] = float32(math.NaN())
	}
	tmp := make([]byte, x.ScratchBytes)
	call := func(entry string, first, n int) {
		args := kernel.LinearArgs{W: ptr(codes[first*pb:]), A: ptr(acts), AScale: ptr(as), ASum: ptr(sums),
			Out: ptr(e.out[first*l.NR():]), Panels: int64(n), LDC: int64(panels * l.NR() * 4)}
		if sb > 0 {
			args.S = ptr(scales[first*sb:])
		}
		if len(tmp) > 0 {
			args.Tmp = ptr(tmp)
		}
		b.CallArtifact(t, e.a, entry, &args, codes, scales, acts, as, sums, e.out, tmp)
	}
	whole := panels / x.Streams * x.Streams
	if whole > 0 {
		call(kernel.EntryMain, 0, whole)
	}
	for i := whole; i < panels; i++ {
		call(kernel.EntryTail, i, 1)
	}
}

// check compares with the oracle, relative to the sum of magnitudes of the products.
func (e *emulated) check() error {
	want := ref.Linear(e.matrix, e.acts.Values())
	width := e.p.Layout.PaddedN(e.p.N)
	f, tol := e.p.Format, 1e-6
	if e.p.Arith == kernel.F32 {
		tol = 1e-5 // roundings of dequantised weights may all point one way
	}
	for m, row := range want {
		for n, v := range row {
			size := 0.0
			for k := range e.p.K {
				w := math.Abs(e.matrix.At(n, k))
				if !f.IsFloat() {
					s, m := e.matrix.Scale(n, k)
					w = math.Abs(s)*float64(int(e.matrix.Codes[n*e.p.K+k])+f.Bias) + math.Abs(m)
				}
				size += w * math.Abs(e.acts.Value(m, k))
			}
			if got := float64(e.out[m*width+n]); !(math.Abs(got-v) <= tol*size) {
				return fmt.Errorf("row %d, channel %d: got %g, want %g", m, n, got, v)
			}
		}
	}
	return nil
}

// AVX-512 code runs on an emulator whose memory outside the operands is not mapped.
func TestLinearEmulated(t *testing.T) {
	bochs.Need(t)
	var b bochs.Batch
	var queue []*emulated
	n := 0
	run := func() {
		b.RunTest(t)
		for _, e := range queue {
			if err := e.check(); err != nil {
				t.Errorf("%s [%s]: %v", e.p, e.a.Key.Config, err)
			}
		}
		n += len(queue)
		b, queue = bochs.Batch{}, nil
	}
	r := rand.New(rand.NewPCG(5, 5))
	for i, p := range linearProblems() {
		if i%every(29) != 0 {
			continue
		}
		for _, c := range sample(r, spaceOf(t, AVX512, p), 3) {
			e := newEmulated(t, r, emit(t, AVX512, p, c))
			e.add(t, &b)
			if queue = append(queue, e); len(queue) == 200 {
				run()
			}
		}
	}
	run()
	t.Logf("%d artifacts", n)
}

// Nibbles left in place: the defaults of one row, with codes and activations at their extremes among them.
func TestNibblesInPlaceEmulated(t *testing.T) {
	bochs.Need(t)
	var b bochs.Batch
	var queue []*emulated
	r := rand.New(rand.NewPCG(6, 6))
	for _, p := range linearProblems() {
		if p.M != 1 || p.Format.Bits != 4 || p.Arith == kernel.F32 || p.Layout.Cols != 2 {
			continue
		}
		c := spaceOf(t, AVX512, p).Default()
		if c[parHi] == 0 {
			continue
		}
		for range 3 { // one in three has the extremes
			e := newEmulated(t, r, emit(t, AVX512, p, c))
			e.add(t, &b)
			queue = append(queue, e)
		}
	}
	b.RunTest(t)
	for _, e := range queue {
		if err := e.check(); err != nil {
			t.Errorf("%s [%s]: %v", e.p, e.a.Key.Config, err)
		}
	}
	if len(queue) == 0 {
		t.Error("no default leaves nibbles in place")
	}
	t.Logf("%d runs", len(queue))
}
