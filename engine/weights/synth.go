package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/tilewright/tilewright/engine/mem"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/ref"
)

func ptr[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

// Synthesize fills panels lo to hi-1 of a quantised tensor with pseudo-random weights of mean 0 and
// standard deviation about 1/sqrt(K), straight in packed form. A weight depends on seed, channel and
// position, not on the layout, so that every layout holds the same model.
func Synthesize(t *Tensor, lo, hi int, seed uint64) error {
	nr, groups := t.Layout.NR(), t.K/t.Format.ScaleGroup()
	if t.Format.Super != kernel.SuperNone {
		return fmt.Errorf("%s: no pseudo-random weights of %s", t.Role, t.Format)
	}
	table, negMean := scaleTable(t)
	set := t.Format.NewScaleSet(nr * t.K)
	for p := lo; p < hi; p++ {
		codes, dst := t.panel(p)
		rows := min(nr, t.N-p*nr)
		randomize(codes, nr, p*nr, rows, t.Format.Bias, seed)
		for i := range rows * groups {
			c := mix(seed+uint64(p*nr*groups+i)) % scaleSteps
			set.Scales[i] = table[c]
			if t.Format.Offset {
				set.Offsets[i] = negMean[c]
			}
		}
		if err := ref.PackScales(dst, t.Layout, t.Format, t.K, rows, set.Slice(t.Format, 0, rows*t.K)); err != nil {
			return err
		}
	}
	return nil
}

// scaleSteps is the number of scales in use: 0.75 to 1.25 of what the standard deviation asks for.
const scaleSteps = 16

// scaleTable holds the scales, and for each the offset that brings the mean to 0. Codes are uniform
// on 0 to L-1: mean (L-1)/2, variance (L^2-1)/12.
func scaleTable(t *Tensor) (scales, offsets [scaleSteps]uint16) {
	levels := float64(int(1) << t.Format.Bits)
	step := math.Sqrt(12 / (levels*levels - 1) / float64(t.K))
	for i := range scales {
		s := step * (0.75 + 0.5*float64(i)/(scaleSteps-1))
		scales[i] = ref.F32ToScale(t.Format.Scale, float32(s))
		s = float64(ref.ScaleToF32(t.Format.Scale, scales[i]))
		offsets[i] = ref.F32ToScale(t.Format.Scale, float32(-s*(levels-1)/2))
	}
	return scales, offsets
}

// randomize fills the dwords of a panel, [K*Bits/32][nr]: two neighbouring channels share a draw of
// 64 bits.
func randomize(codes []byte, nr, first, rows, bias int, seed uint64) {
	const gamma, stride = 0x9e3779b97f4a7c15, 0xd1342543de82ef95
	words := unsafe.Slice((*uint64)(mem.Addr(codes)), len(codes)/8)
	row := seed + uint64(first/2)*gamma
	for len(words) >= nr/2 {
		z0 := row
		for i := range words[:nr/2] {
			words[i] = mix(z0)
			z0 += gamma
		}
		row += stride
		words = words[nr/2:]
	}
	if rows == nr {
		return
	}
	pad := uint32(bias) * 0x01010101
	if bias < 16 {
		pad |= pad << 4
	}
	for at := 0; at < len(codes); at += 4 * nr {
		for c := rows; c < nr; c++ {
			binary.LittleEndian.PutUint32(codes[at+4*c:], pad)
		}
	}
}

// mix is the finaliser of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
