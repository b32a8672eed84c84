package x86

import "github.com/tilewright/tilewright/kernel"

// linearDefaults are the declared defaults in order of preference: the first that the registers
// allow counts. They were found by measuring on Zen 3 (AVX2) and Emerald Rapids (AVX-512).
func linearDefaults(isa ISA, p kernel.Problem) []kernel.Config {
	base := kernel.Config{parKU: 64, parHint: 1, parPrefetch: 2048}
	switch {
	case p.M > 8:
		base[parPrefetch], base[parBlock] = 0, 384
		base[parOrder] = int64(b2i(!isa.EVEX))
		// Unpacking pays where few rows share the work of expanding nibbles.
		base[parPanel] = int64(b2i(p.M > 64 && isa.EVEX || p.Arith == kernel.F32))
	case p.M > 1:
		base[parOrder] = int64(b2i(!isa.EVEX))
	}
	var out []kernel.Config
	for _, t := range defaultTiles(isa, p) {
		for fmem := range int64(2) {
			for _, ku := range []int64{64, 32, 16, 8} {
				c := base.Clone()
				c[parMR], c[parStreams], c[parVecs], c[parFMem], c[parKU] = t[0], t[1], t[2], fmem, ku
				out = append(out, c)
			}
		}
	}
	return out
}

// defaultTiles lists register tiles, rows by streams by vectors of a panel, the best first.
func defaultTiles(isa ISA, p kernel.Problem) [][3]int64 {
	vecs := int64(p.Layout.Cols * isa.Halves())
	var out [][3]int64
	tile := func(mr, streams, v int64) { out = append(out, [3]int64{mr, streams, min(v, vecs)}) }
	switch {
	case p.M == 1 && isa.EVEX:
		tile(1, 2, 4)
	case p.M <= 8:
		tile(4, 1, 4)
		tile(4, 1, 2)
		tile(4, 1, 1)
	case isa.EVEX:
		if p.M > 64 {
			tile(12, 1, 2)
		}
		tile(8, 1, 2)
	default:
		for _, mr := range []int64{6, 4, 3} {
			tile(mr, 1, 2)
		}
	}
	for _, mr := range []int64{2, 1} {
		for v := vecs; v > 0; v /= 2 {
			tile(mr, 1, v)
		}
	}
	return out
}
