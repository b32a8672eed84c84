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
	for g := 0; len(dst) >= f.Group; g++ {
		at := l.ScaleAt(f, c, g)
		s := ScaleToF32(f.Scale, binary.LittleEndian.Uint16(scales[at:]))
		m := -s * float32(f.Bias) // exact: a bias is a power of two
		if f.Offset {
			// With an offset the contract's formats have Bias 0, so this too rounds once, below.
			m += ScaleToF32(f.Scale, binary.LittleEndian.Uint16(scales[at+2*l.NR():]))
		}
		src := codes[g*f.Group*f.Bits/32*step+4*c:]
		if f.Bits == 4 {
			groupRow4(dst[:f.Group], src, step, s, m)
		} else {
			groupRow8(dst[:f.Group], src, step, s, m)
		}
		dst = dst[f.Group:]
	}
}

// groupRow4 writes q*s + m for codes of 4 bits, dwords step bytes apart.
func groupRow4(dst []float32, src []byte, step int, s, m float32) {
	for i := 0; len(dst) >= 8; i += step {
		v := binary.LittleEndian.Uint32(src[i:])
		d := dst[:8:8]
		d[0] = float32(v&15)*s + m
		d[1] = float32(v>>8&15)*s + m
		d[2] = float32(v>>16&15)*s + m
		d[3] = float32(v>>24&15)*s + m
		d[4] = float32(v>>4&15)*s + m
		d[5] = float32(v>>12&15)*s + m
		d[6] = float32(v>>20&15)*s + m
		d[7] = float32(v>>28)*s + m
		dst = dst[8:]
	}
}

// groupRow8 writes q*s + m for codes of 8 bits.
func groupRow8(dst []float32, src []byte, step int, s, m float32) {
	for i := 0; len(dst) >= 4; i += step {
		v := binary.LittleEndian.Uint32(src[i:])
		d := dst[:4:4]
		d[0] = float32(v&255)*s + m
		d[1] = float32(v>>8&255)*s + m
		d[2] = float32(v>>16&255)*s + m
		d[3] = float32(v>>24)*s + m
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
