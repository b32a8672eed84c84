package ref

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tilewright/tilewright/kernel"
)

// Pack lays a matrix out: all panels of codes, and all panels of scales (nil for float formats).
func Pack(l kernel.Layout, w *Matrix) (codes, scales []byte, err error) {
	if err := w.Validate(); err != nil {
		return nil, nil, err
	}
	pb, sb, n := l.PanelBytes(w.Format, w.K), l.ScaleBytes(w.Format, w.K), l.Panels(w.N)
	codes, scales = make([]byte, n*pb), make([]byte, n*sb)
	for p := range n {
		err := PackPanel(codes[p*pb:(p+1)*pb], scales[p*sb:(p+1)*sb], l, w, p*l.NR())
		if err != nil {
			return nil, nil, err
		}
	}
	return codes, scales, nil
}

// PackPanel lays out the panel of channels first to first+NR-1 of w. Channels that w lacks are
// padding: code Bias, scale and offset 0. codes and scales hold PanelBytes and ScaleBytes.
func PackPanel(codes, scales []byte, l kernel.Layout, w *Matrix, first int) error {
	f := w.Format
	if err := checkPanel(l, f, w.K, codes, scales); err != nil {
		return err
	}
	clear(codes)
	for c := range l.NR() {
		n := first + c
		switch {
		case f.IsFloat() && n < w.N:
			packFloats(codes, l, f, c, w.Floats[n*w.K:(n+1)*w.K])
		case !f.IsFloat() && n < w.N:
			packCodes(codes, l, f, c, w.Codes[n*w.K:(n+1)*w.K])
		case !f.IsFloat():
			padCodes(codes, l, f, c)
		}
	}
	if f.IsFloat() {
		return nil
	}
	groups := w.K / f.Group
	lo, hi := min(first, w.N)*groups, min(first+l.NR(), w.N)*groups
	var offsets []uint16
	if f.Offset {
		offsets = w.Offsets[lo:hi]
	}
	return PackScales(scales, l, f, w.K, w.Scales[lo:hi], offsets)
}

// PackScales lays out the scales and offsets of one panel from rows of K/Group values; missing rows
// are padding.
func PackScales(dst []byte, l kernel.Layout, f kernel.Format, k int, scales, offsets []uint16) error {
	groups := k / f.Group
	if len(dst) != l.ScaleBytes(f, k) || len(scales)%groups != 0 || len(scales) > groups*l.NR() ||
		f.Offset && len(offsets) != len(scales) {
		return fmt.Errorf("ref: %d scales and %d offsets do not fit a panel %s of %s, K = %d, of %d bytes",
			len(scales), len(offsets), l, f, k, len(dst))
	}
	clear(dst)
	for i, s := range scales {
		at := l.ScaleAt(f, i/groups, i%groups)
		binary.LittleEndian.PutUint16(dst[at:], s)
		if f.Offset {
			binary.LittleEndian.PutUint16(dst[at+2*l.NR():], offsets[i])
		}
	}
	return nil
}

// Unpack is the inverse of Pack for a matrix of n channels.
func Unpack(l kernel.Layout, f kernel.Format, n, k int, codes, scales []byte) (*Matrix, error) {
	w, err := NewMatrix(f, n, k)
	if err != nil {
		return nil, err
	}
	pb, sb := l.PanelBytes(f, k), l.ScaleBytes(f, k)
	if len(codes) < l.Panels(n)*pb || len(scales) < l.Panels(n)*sb {
		return nil, fmt.Errorf("ref: %d bytes of codes and %d of scales are less than %d panels %s of %s, K = %d",
			len(codes), len(scales), l.Panels(n), l, f, k)
	}
	for p := range l.Panels(n) {
		if err := UnpackPanel(w, l, p*l.NR(), codes[p*pb:(p+1)*pb], scales[p*sb:(p+1)*sb]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// UnpackPanel reads one panel into channels first to first+NR-1 of w; padding is dropped.
func UnpackPanel(w *Matrix, l kernel.Layout, first int, codes, scales []byte) error {
	f, k := w.Format, w.K
	if err := checkPanel(l, f, k, codes, scales); err != nil {
		return err
	}
	for c := range min(l.NR(), w.N-first) {
		n := first + c
		if f.IsFloat() {
			row(w.Floats[n*k:(n+1)*k], l, f, codes, scales, c)
			continue
		}
		for i := range k {
			off, shift := l.CodeAt(f, c, i)
			w.Codes[n*k+i] = codes[off] >> shift & (1<<f.Bits - 1)
		}
		for g := range k / f.Group {
			at := l.ScaleAt(f, c, g)
			w.Scales[n*k/f.Group+g] = binary.LittleEndian.Uint16(scales[at:])
			if f.Offset {
				w.Offsets[n*k/f.Group+g] = binary.LittleEndian.Uint16(scales[at+2*l.NR():])
			}
		}
	}
	return nil
}

func checkPanel(l kernel.Layout, f kernel.Format, k int, codes, scales []byte) error {
	if err := check(f, k); err != nil {
		return err
	}
	if err := l.Validate(f); err != nil {
		return err
	}
	if len(codes) != l.PanelBytes(f, k) || len(scales) != l.ScaleBytes(f, k) {
		return fmt.Errorf("ref: a panel %s of %s, K = %d, takes %d bytes of codes and %d of scales, have %d and %d",
			l, f, k, l.PanelBytes(f, k), l.ScaleBytes(f, k), len(codes), len(scales))
	}
	return nil
}

// packCodes writes the codes of channel c: one dword for each 32/Bits of k, NR dwords apart.
func packCodes(dst []byte, l kernel.Layout, f kernel.Format, c int, codes []uint8) {
	per := 32 / f.Bits
	for at := 4 * c; len(codes) >= per; at += 4 * l.NR() {
		d := dst[at : at+4 : at+4]
		for i := range d {
			d[i] = codes[i]
			if per == 8 {
				d[i] |= codes[i+4] << 4
			}
		}
		codes = codes[per:]
	}
}

func padCodes(dst []byte, l kernel.Layout, f kernel.Format, c int) {
	b := byte(f.Bias)
	if f.Bits == 4 {
		b |= b << 4
	}
	for at := 4 * c; at < len(dst); at += 4 * l.NR() {
		copy(dst[at:at+4], []byte{b, b, b, b})
	}
}

func packFloats(dst []byte, l kernel.Layout, f kernel.Format, c int, row []float32) {
	for k, v := range row {
		off, _ := l.CodeAt(f, c, k)
		if f.Bits == 32 {
			binary.LittleEndian.PutUint32(dst[off:], math.Float32bits(v))
		} else {
			binary.LittleEndian.PutUint16(dst[off:], F32ToScale(f.Scale, v))
		}
	}
}
