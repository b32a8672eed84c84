package kerneltest

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

// Bounds of an output, as a share of the norms of the activation row and of the weight row (with
// code, bias and offset terms taken apart, for they may cancel).
const (
	integerBound = 1e-5
	floatBound   = 1e-4
)

// Linear checks an OpLinear artifact.
func Linear(t TB, mem Allocator, run Runner, a *kernel.Artifact) { t.Helper(); Test(t, mem, run, a) }

func (b *bench) linear() []error {
	var errs []error
	for _, c := range linearCases {
		for _, m := range []int{1, b.e.MR, b.e.MR + 1, 3*b.e.MR + 1} {
			if m != 1 && !c.everyM && m != b.e.MR+1 {
				continue
			}
			b.try(&errs, fmt.Sprintf("%s, M = %d", c.name, m), func() error {
				w, acts := b.linearData(c, m)
				return b.linearCase(w, acts, c.exact && b.exactFits())
			})
		}
	}
	return errs
}

// act is how the artifact wants its activations.
func (b *bench) act() kernel.Act {
	act := kernel.Act{Arith: b.p.Arith, Group: b.p.Act.Group, MR: b.e.MR}
	if act.Group == 0 {
		act.Group = b.p.Format.Group
	}
	return act
}

func (b *bench) linearCase(w *ref.Matrix, acts *ref.Acts, exact bool) error {
	p, l, act := b.p, b.p.Layout, acts.Act
	panels, pb, sb := l.Panels(p.N), l.PanelBytes(p.Format, p.K), l.ScaleBytes(p.Format, p.K)
	codes, scales, err := ref.Pack(l, w)
	if err != nil {
		return err
	}
	ac, as32, sums := acts.Pack()
	wBuf, sBuf, aBuf := put(b, codes), put(b, scales), put(b, ac)
	asBuf, sumBuf := b.fill(4*len(as32)), b.fill(4*len(sums))
	if act.Arith != kernel.F32 {
		copy(as[uint32](asBuf), as32)
	}
	if !p.Format.IsFloat() {
		copy(as[uint32](sumBuf), sums)
	}
	if b.e.Panel {
		out := b.fill(panels * b.e.PanelStride)
		b.call(kernel.EntryUnpack, wBuf.Addr, sBuf.Addr, out.Addr, uint64(panels))
		wBuf, pb = out, b.e.PanelStride
	}
	want, norms := ref.Linear(w, acts.Values()), weightNorms(w)
	width := panels * l.NR() * 4
	ldc := width + 64
	tmp := b.fill((b.e.ScratchBytes + 63) &^ 63)
	for block := range acts.Blocks() {
		out := b.fill((act.MR-1)*ldc + width)
		aOff := block * act.BlockBytes(p.K)
		sOff := block * act.Groups(p.K) * act.MR * 4
		calls := func(entry string, first, n int) {
			b.call(entry, wBuf.at(first*pb), sBuf.at(first*sb), aBuf.at(aOff), asBuf.at(sOff), sumBuf.at(sOff),
				out.at(first*l.NR()*4), uint64(n), uint64(ldc), tmp.Addr)
		}
		streams := max(b.e.Streams, 1)
		whole := panels / streams * streams
		if whole > 0 {
			calls(kernel.EntryMain, 0, whole)
		}
		for i := whole; i < panels; i++ {
			calls(kernel.EntryTail, i, 1)
		}
		if b.err != nil {
			return b.err
		}
		rows := min(act.MR, acts.M-block*act.MR)
		if err := b.linearRows(out, ldc, want[block*act.MR:][:rows], acts, block*act.MR, norms, exact); err != nil {
			return err
		}
	}
	return unchanged("A", aBuf, ac)
}

// linearRows compares the rows of one block: real channels with the oracle, padding with zero, rows
// past M with zero (their activations are), the gap between rows with what was there.
func (b *bench) linearRows(out Buffer, ldc int, want [][]float64, acts *ref.Acts, first int, norms []float64, exact bool) error {
	got, bits := as[float32](out), as[uint32](out)
	bound := integerBound
	if b.p.Arith == kernel.F32 {
		bound = floatBound
	}
	width := b.p.Layout.PaddedN(b.p.N)
	for r := range b.e.MR {
		norm := 0.0
		if r < len(want) {
			norm = actNorm(acts, first+r)
		}
		for n := range width {
			v := float64(got[r*ldc/4+n])
			at := func(err error) error { return fmt.Errorf("row %d, channel %d of %d: %w", first+r, n, b.p.N, err) }
			switch {
			case norm-norm != 0: // a row with NaN or Inf: it must show in every real channel
				if n < b.p.N && v-v == 0 {
					return at(fmt.Errorf("got %g from an activation that is not finite", v))
				}
				continue
			case r >= len(want), n >= b.p.N:
				if v != 0 {
					return at(fmt.Errorf("padding is %g, want 0", v))
				}
			case exact:
				if v != want[r][n] {
					return at(fmt.Errorf("got %g, want exactly %g", v, want[r][n]))
				}
			default:
				if err := within(v, want[r][n], bound*norm*norms[n]+1e-37); err != nil {
					return at(err)
				}
			}
		}
		for i := r*ldc/4 + width; i < (r+1)*ldc/4 && i < len(bits); i++ {
			if bits[i] != 0xffffffff {
				return fmt.Errorf("row %d: wrote past the last panel", first+r)
			}
		}
	}
	return nil
}

func actNorm(a *ref.Acts, m int) float64 {
	var ss float64
	for k := range a.K {
		v := a.Value(m, k)
		ss += v * v
	}
	return math.Sqrt(ss)
}

// weightNorms is, by channel, the norm of |s|q + |s|Bias + |m| over K, or of the floats.
func weightNorms(w *ref.Matrix) []float64 {
	out := make([]float64, w.N)
	group := 1
	if !w.Format.IsFloat() {
		group = w.Format.Group
	}
	var s, m float64
	for n := range out {
		for k := range w.K {
			var v float64
			if w.Format.IsFloat() {
				v = w.At(n, k)
			} else {
				if k%group == 0 {
					s, m = w.Scale(n, k)
				}
				v = math.Abs(s)*(float64(w.Codes[n*w.K+k])+float64(w.Format.Bias)) + math.Abs(m)
			}
			out[n] += v * v
		}
		out[n] = math.Sqrt(out[n])
	}
	return out
}
