package ref

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Row dequantises channel n of a packed tensor of len(dst) columns into dst: the look-up of an
// embedding. codes and scales hold all panels, as Pack makes them.
func Row(dst []float32, l kernel.Layout, f kernel.Format, codes, scales []byte, n int) error {
	k := len(dst)
	if err := check(f, k); err != nil {
		return err
	}
	pb, sb, p := l.PanelBytes(f, k), l.ScaleBytes(f, k), n/l.NR()
	if n < 0 || (p+1)*pb > len(codes) || (p+1)*sb > len(scales) {
		return fmt.Errorf("ref: channel %d is outside a packed tensor of %d bytes (%s, %s, K = %d)", n, len(codes), f, l, k)
	}
	row(dst, l, f, codes[p*pb:(p+1)*pb], scales[p*sb:(p+1)*sb], n%l.NR())
	return nil
}

// row dequantises channel c of one panel.
func row(dst []float32, l kernel.Layout, f kernel.Format, codes, scales []byte, c int) {
	step := 4 * l.NR()
	if f.IsFloat() {
		floatRow(dst, f, codes[4*c:], step)
		return
	}
	bias := float32(f.Bias)
	for g := 0; len(dst) >= f.Group; g++ {
		s, m := scaleOf(l, f, scales, c, g)
		d, src := dst[:f.Group], codes[g*f.Group*f.Bits/32*step+4*c:]
		switch f.Bits {
		case 4:
			groupRow4(d, src, step)
		case 6:
			groupRow6(d, src, step)
		default:
			groupRow8(d, src, step)
		}
		// q - Bias is exact, and so is its product with s but for the widest formats, where it is
		// rounded as it is in a sum without offsets.
		for i, q := range d {
			d[i] = float32((q-bias)*s) + m
		}
		dst = dst[f.Group:]
	}
}

// scaleOf is the scale and the offset of channel c and group g.
func scaleOf(l kernel.Layout, f kernel.Format, scales []byte, c, g int) (s, m float32) {
	at := l.ScaleAt(f, c, g)
	s = ScaleToF32(f.Scale, binary.LittleEndian.Uint16(scales[at:]))
	if f.Offset {
		m = ScaleToF32(f.Scale, binary.LittleEndian.Uint16(scales[at+2*l.NR():]))
	}
	if f.Super == kernel.SuperNone {
		return s, m
	}
	at = l.SubAt(f, c, g)
	if f.Super == kernel.SuperQ6K {
		return s * float32(int8(scales[at])), 0
	}
	return s * float32(scales[at]), m * float32(scales[at+l.NR()])
}

// groupRow4 writes codes of 4 bits, dwords step bytes apart.
func groupRow4(dst []float32, src []byte, step int) {
	for i := 0; len(dst) >= 8; i += step {
		v := binary.LittleEndian.Uint32(src[i:])
		d := dst[:8:8]
		d[0], d[1], d[2], d[3] = float32(v&15), float32(v>>8&15), float32(v>>16&15), float32(v>>24&15)
		d[4], d[5], d[6], d[7] = float32(v>>4&15), float32(v>>12&15), float32(v>>20&15), float32(v>>28)
		dst = dst[8:]
	}
}

// groupRow6 writes codes of 6 bits: two dwords of lower and one of upper bits.
func groupRow6(dst []float32, src []byte, step int) {
	for i := 0; len(dst) >= 16; i += 3 * step {
		groupRow4(dst[:8], src[i:], step)
		groupRow4(dst[8:16], src[i+step:], step)
		h := binary.LittleEndian.Uint32(src[i+2*step:])
		for j := range 16 {
			dst[j] += float32(h >> (j%4*8 + j/4*2) & 3 << 4)
		}
		dst = dst[16:]
	}
}

// groupRow8 writes codes of 8 bits.
func groupRow8(dst []float32, src []byte, step int) {
	for i := 0; len(dst) >= 4; i += step {
		v := binary.LittleEndian.Uint32(src[i:])
		d := dst[:4:4]
		d[0], d[1], d[2], d[3] = float32(v&255), float32(v>>8&255), float32(v>>16&255), float32(v>>24)
		dst = dst[4:]
	}
}

// floatRow reads plain floats: one or two to a dword.
func floatRow(dst []float32, f kernel.Format, src []byte, step int) {
	switch {
	case f.Bits == 32:
		for k := range dst {
			dst[k] = math.Float32frombits(binary.LittleEndian.Uint32(src[k*step:]))
		}
	case f.Scale == kernel.ScaleBF16:
		for i := 0; len(dst) >= 2; i += step {
			v := binary.LittleEndian.Uint32(src[i:])
			dst[0], dst[1] = BF16ToF32(uint16(v)), BF16ToF32(uint16(v>>16))
			dst = dst[2:]
		}
	default:
		for i := 0; len(dst) >= 2; i += step {
			v := binary.LittleEndian.Uint32(src[i:])
			dst[0], dst[1] = F16ToF32(uint16(v)), F16ToF32(uint16(v>>16))
			dst = dst[2:]
		}
	}
}
