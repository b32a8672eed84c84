package ref

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// QuantizeRow codes one row x in a Format by rounding to nearest, the stored scale and offset being
// those that codes are rounded against. With an offset: m = min, s = (max - min)/(2^Bits - 1), codes
// from 0; without: s = amax/(Bias - 1), codes symmetric about Bias. A group of equal values has
// scale 0 and codes 0 (Bias). The result depends on nothing but x and f. NaN, infinities and
// values whose scale does not fit the scale type are errors that name the position.
func QuantizeRow(f kernel.Format, x []float32, q []uint8, s kernel.ScaleSet) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if !kernel.BlockF32.Packs(f) {
		return fmt.Errorf("ref: cannot quantise to format %s", f)
	}
	n := len(x) / f.Group
	if len(x)%f.Group != 0 || len(q) != len(x) || !s.Fits(f, len(x)) {
		return fmt.Errorf("ref: a row of %d weights in groups of %d needs as many codes and %d scales, not %d and %d", len(x), f.Group, n, len(q), len(s.Scales))
	}
	for g := range n {
		lo, hi := g*f.Group, (g+1)*f.Group
		mn, mx := extent(x[lo:hi])
		if !(mx-mn <= math.MaxFloat32) { // NaN and infinities fail too
			return badGroup(x[lo:hi], lo)
		}
		var err error
		if f.Offset {
			s.Scales[g], s.Offsets[g], err = asymmetric(f, x[lo:hi], q[lo:hi], mn, mx)
		} else {
			s.Scales[g], err = symmetric(f, x[lo:hi], q[lo:hi], max(mx, -mn))
		}
		if err != nil {
			return fmt.Errorf("ref: weights %d to %d: %w", lo, hi-1, err)
		}
	}
	return nil
}

// extent returns the smallest and largest of x, NaN if there is one.
func extent(x []float32) (mn, mx float32) {
	mn, mx = x[0], x[0]
	var nan float32
	for _, v := range x {
		nan += v - v
		if v < mn {
			mn = v
		}
		if v > mx {
			mx = v
		}
	}
	return mn + nan, mx + nan
}

func badGroup(x []float32, first int) error {
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("ref: weight %d is %v", first+i, v)
		}
	}
	return fmt.Errorf("ref: weights %d to %d span more than float32 holds", first, first+len(x)-1)
}

// storeScale rounds to the scale type; the value read back is what codes are rounded against.
func storeScale(t kernel.ScaleType, v float32) (bits uint16, back float32, err error) {
	bits = F32ToScale(t, v)
	back = ScaleToF32(t, bits)
	if back-back != 0 {
		err = fmt.Errorf("%v does not fit %s", v, t)
	}
	return bits, back, err
}

// Adding 2^23 (1.5 * 2^23 for signed numbers) rounds to an integer, ties to even, in the low bits.
const (
	roundUnsigned = 0x1p23
	roundSigned   = 0x1.8p23
)

func asymmetric(f kernel.Format, x []float32, q []uint8, mn, mx float32) (s, m uint16, err error) {
	top := float32(int(1)<<f.Bits - 1)
	s, scale, err := storeScale(f.Scale, (mx-mn)/top)
	if err != nil {
		return
	}
	m, off, err := storeScale(f.Scale, mn)
	if err != nil {
		return
	}
	if scale == 0 {
		clear(q)
		return
	}
	for i, v := range x {
		r := min(max((v-off)/scale, 0), top)
		q[i] = uint8(math.Float32bits(r + roundUnsigned))
	}
	return
}

func symmetric(f kernel.Format, x []float32, q []uint8, amax float32) (s uint16, err error) {
	top := float32(f.Bias - 1)
	s, scale, err := storeScale(f.Scale, amax/top)
	if err != nil {
		return
	}
	bias := uint8(f.Bias)
	if scale == 0 {
		for i := range q {
			q[i] = bias
		}
		return
	}
	for i, v := range x {
		r := min(max(v/scale, -top), top)
		q[i] = uint8(math.Float32bits(r+roundSigned)) + bias
	}
	return
}

// floatsDecoder quantises rows of floats to a format, one group at a time. A group that cannot be has
// a scale of NaN.
func floatsDecoder(t kernel.Block, f kernel.Format) decoder {
	size := t.Bytes() / t.Weights()
	return func(b []byte, q []uint8, s kernel.ScaleSet) {
		x := make([]float32, len(q))
		for i := range x {
			switch v := b[i*size:]; t {
			case kernel.BlockF16:
				x[i] = F16ToF32(le.Uint16(v))
			case kernel.BlockBF16:
				x[i] = BF16ToF32(le.Uint16(v))
			default:
				x[i] = math.Float32frombits(le.Uint32(v))
			}
		}
		for g := range s.Scales {
			lo, hi := g*f.Group, (g+1)*f.Group
			if QuantizeRow(f, x[lo:hi], q[lo:hi], s.Slice(f, lo, hi)) != nil {
				s.Scales[g] = F32ToScale(f.Scale, float32(math.NaN()))
			}
		}
	}
}
