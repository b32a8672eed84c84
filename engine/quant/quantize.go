package quant

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Quantize codes one row x in a Format by rounding to nearest, the stored scale and offset being
// those that codes are rounded against. With an offset: m = min, s = (max - min)/(2^Bits - 1), codes
// from 0; without: s = amax/(Bias - 1), codes symmetric about Bias. A group of equal values has
// scale 0 and codes 0 (Bias). The result depends on nothing but x and f. NaN, infinities and
// values whose scale does not fit the scale type are errors that name the position.
func Quantize(f kernel.Format, x []float32, q []uint8, s, m []uint16) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if f.IsFloat() || f.Super != kernel.SuperNone || !f.Offset && f.Bias == 0 || f.Offset && f.Bias != 0 {
		return fmt.Errorf("quant: cannot quantise to format %s", f)
	}
	if f.Bias > 1<<(f.Bits-1) {
		return fmt.Errorf("quant: bias of format %s is larger than its codes", f)
	}
	n := len(x) / f.Group
	if len(x)%f.Group != 0 || len(q) != len(x) || len(s) != n || f.Offset && len(m) != n {
		return fmt.Errorf("quant: a row of %d weights in groups of %d needs as many codes and %d scales, not %d and %d", len(x), f.Group, n, len(q), len(s))
	}
	for g := range n {
		lo, hi := g*f.Group, (g+1)*f.Group
		mn, mx := extent(x[lo:hi])
		if !(mx-mn <= math.MaxFloat32) { // NaN and infinities fail too
			return badGroup(x[lo:hi], lo)
		}
		var err error
		if f.Offset {
			s[g], m[g], err = asymmetric(f, x[lo:hi], q[lo:hi], mn, mx)
		} else {
			s[g], err = symmetric(f, x[lo:hi], q[lo:hi], max(mx, -mn))
		}
		if err != nil {
			return fmt.Errorf("quant: weights %d to %d: %w", lo, hi-1, err)
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
			return fmt.Errorf("quant: weight %d is %v", first+i, v)
		}
	}
	return fmt.Errorf("quant: weights %d to %d span more than float32 holds", first, first+len(x)-1)
}

// store rounds to the scale type; the value read back is what codes are rounded against.
func store(t kernel.ScaleType, v float32) (bits uint16, back float32, err error) {
	if t == kernel.ScaleBF16 {
		bits = ToBF16(v)
		back = BF16(bits)
	} else {
		bits = ToF16(v)
		back = F16(bits)
	}
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
	s, scale, err := store(f.Scale, (mx-mn)/top)
	if err != nil {
		return
	}
	m, off, err := store(f.Scale, mn)
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
	s, scale, err := store(f.Scale, amax/top)
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
