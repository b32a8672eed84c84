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
	rows := min(first+l.NR(), w.N) - min(first, w.N)
	return PackScales(scales, l, f, w.K, rows, w.Slice(f, min(first, w.N)*w.K, (min(first, w.N)+rows)*w.K))
}

// PackScales lays out the scales of one panel from those of rows rows of K weights; missing rows are
// padding.
func PackScales(dst []byte, l kernel.Layout, f kernel.Format, k, rows int, s kernel.ScaleSet) error {
	nr := l.NR()
	if len(dst) != l.ScaleBytes(f, k) || rows > nr || !s.Fits(f, rows*k) {
		return fmt.Errorf("ref: %d scales and %d offsets do not fit %d rows of a panel %s of %s, K = %d, of %d bytes",
			len(s.Scales), len(s.Offsets), rows, l, f, k, len(dst))
	}
	if rows < nr {
		clear(dst)
	}
	groups, per := k/f.ScaleGroup(), f.ScaleGroup()/f.Group
	stride := len(dst) / groups
	transpose(dst, stride, groups, s.Scales)
	if f.Offset {
		transpose(dst[2*nr:], stride, groups, s.Offsets)
	}
	groups *= per
	for i, v := range s.Subs {
		at := l.SubAt(f, i/groups, i%groups)
		dst[at] = v
		if f.Offset {
			dst[at+nr] = s.SubOffsets[i]
		}
	}
	return nil
}

// packRowScales lays out the scales of one row as channel c of a panel.
func packRowScales(dst []byte, l kernel.Layout, f kernel.Format, c int, s kernel.ScaleSet) {
	for i, v := range s.Scales {
		at := l.ScaleAt(f, c, i*f.ScaleGroup()/f.Group)
		binary.LittleEndian.PutUint16(dst[at:], v)
		if f.Offset {
			binary.LittleEndian.PutUint16(dst[at+2*l.NR():], s.Offsets[i])
		}
	}
	for g, v := range s.Subs {
		at := l.SubAt(f, c, g)
		dst[at] = v
		if f.Offset {
			dst[at+l.NR()] = s.SubOffsets[g]
		}
	}
}

// PadPanel makes padding of the channels of a panel from the first-th on: code Bias, scale and offset
// 0. codes and scales hold PanelBytes and ScaleBytes.
func PadPanel(codes, scales []byte, l kernel.Layout, f kernel.Format, k, first int) error {
	if err := checkPanel(l, f, k, codes, scales); err != nil || f.IsFloat() {
		return err
	}
	zero := f.NewScaleSet(k)
	for c := first; c < l.NR(); c++ {
		padCodes(codes, l, f, c)
		packRowScales(scales, l, f, c, zero)
	}
	return nil
}

// transpose writes rows of groups values as columns: the value of row c and group g lies at byte
// g*stride + 2*c. Four columns at a time share the cache line that they write to.
func transpose(dst []byte, stride, groups int, rows []uint16) {
	n := len(rows) / groups
	c := 0
	for ; c+4 <= n; c += 4 {
		r0, r1, r2, r3 := rows[c*groups:][:groups], rows[(c+1)*groups:][:groups], rows[(c+2)*groups:][:groups], rows[(c+3)*groups:][:groups]
		at := 2 * c
		for g, v := range r0 {
			binary.LittleEndian.PutUint64(dst[at:], uint64(v)|uint64(r1[g])<<16|uint64(r2[g])<<32|uint64(r3[g])<<48)
			at += stride
		}
	}
	for ; c < n; c++ {
		for g, v := range rows[c*groups:][:groups] {
			binary.LittleEndian.PutUint16(dst[g*stride+2*c:], v)
		}
	}
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
			q := codes[off] >> shift & (1<<f.Bits - 1)
			if f.Bits == 6 {
				off, shift = l.UpperAt(c, i)
				q = q&15 | codes[off]>>shift&3<<4
			}
			w.Codes[n*k+i] = q
		}
		unpackScales(w.Slice(f, n*k, (n+1)*k), l, f, c, scales)
	}
	return nil
}

// unpackScales reads the scales of channel c of a panel into dst, those of one row.
func unpackScales(dst kernel.ScaleSet, l kernel.Layout, f kernel.Format, c int, scales []byte) {
	for i := range dst.Scales {
		at := l.ScaleAt(f, c, i*f.ScaleGroup()/f.Group)
		dst.Scales[i] = binary.LittleEndian.Uint16(scales[at:])
		if f.Offset {
			dst.Offsets[i] = binary.LittleEndian.Uint16(scales[at+2*l.NR():])
		}
	}
	for g := range dst.Subs {
		at := l.SubAt(f, c, g)
		dst.Subs[g] = scales[at]
		if f.Offset {
			dst.SubOffsets[g] = scales[at+l.NR()]
		}
	}
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

// packCodes writes the codes of channel c, a multiple of 16: dwords NR apart.
func packCodes(dst []byte, l kernel.Layout, f kernel.Format, c int, codes []uint8) {
	step := 4 * l.NR()
	for at := 4 * c; len(codes) >= 16; codes = codes[16:] {
		switch f.Bits {
		case 8:
			for i := range 4 {
				copy(dst[at+i*step:], codes[4*i:4*i+4])
			}
		case 6:
			for j, d := 0, dst[at+2*step:][:4:4]; j < 4; j++ {
				d[j] = codes[j]>>4 | codes[4+j]>>4<<2 | codes[8+j]>>4<<4 | codes[12+j]>>4<<6
			}
			fallthrough
		default:
			packNibbles(dst[at:], codes)
			packNibbles(dst[at+step:], codes[8:])
		}
		at += f.Bits / 2 * step
	}
}

// packNibbles writes the lower four bits of eight codes to a dword.
func packNibbles(dst []byte, codes []uint8) {
	d, q := dst[:4:4], codes[:8:8]
	for i := range d {
		d[i] = q[i]&15 | q[i+4]<<4
	}
}

func padCodes(dst []byte, l kernel.Layout, f kernel.Format, c int) {
	var pad [16]uint8
	for i := range pad {
		pad[i] = byte(f.Bias)
	}
	size := 2 * f.Bits * l.NR() // of 16 k
	for at := 0; at < len(dst); at += size {
		packCodes(dst[at:at+size], l, f, c, pad[:])
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
