package x86

import "github.com/tilewright/tilewright/kernel"

// dynamicBytes are the codes of a matrix from which decode shares it out on demand; streamBytes and
// streamPanel those of a matrix and of a panel from which it may walk four panels at once: a share of
// fewer panels would not divide, and shorter panels gain nothing.
const (
	dynamicBytes = 4 << 20
	streamBytes  = 1 << 20
	streamPanel  = 16 << 10
)

// fourStreams reports whether decode on AVX2 walks four panels at once and leaves it to the hardware to
// run ahead, which it does further in several pages than in one, and than prefetches reach. Where groups
// are short and have offsets or sub-scales, sums in memory cost what that gains.
func fourStreams(isa ISA, p kernel.Problem) bool {
	return !isa.VNNI && p.M == 1 && p.Arith == kernel.A8 && p.Format.Super == kernel.SuperNone &&
		(p.Format.Group >= 128 || !p.Format.Offset) &&
		codeBytes(p) >= streamBytes && p.Layout.PanelBytes(p.Format, p.K) >= streamPanel
}

func codeBytes(p kernel.Problem) int { return p.N * p.K * p.Format.Bits / 8 }

// linearDefaults are the declared defaults in order of preference: the first that the registers
// allow counts. They were found by measuring on Zen 3 (AVX2) and Emerald Rapids (AVX-512).
func linearDefaults(isa ISA, p kernel.Problem) []kernel.Config {
	base := kernel.Config{parHint: 1, parIMem: int64(b2i(p.M > 1 || fourStreams(isa, p)))} // twice the tile
	// Sharing out the end of a large matrix on demand evens out workers that differ, on whatever cores; the
	// steps of a small model are over sooner than it pays.
	base[parChunk] = int64(4 * b2i(p.M == 1 && codeBytes(p) >= dynamicBytes))
	switch {
	case p.M > 8:
		// Unpacking pays where many rows share its work, and for six bits sooner.
		base[parPanel] = int64(b2i(p.M > 64 || p.Arith == kernel.F32 || p.Format.Bits == 6))
		// One broadcast for all vectors halves the loads; what is expanded on the way is better used up.
		base[parOrder] = max(base[parPanel], int64(b2i(!isa.EVEX)))
		base[parBlock] = blockKiB(isa)
		if !isa.EVEX {
			base[parPrefetch] = 2048 * (1 - base[parPanel])
		}
	case isa.EVEX:
		base[parPrefetch] = 2048
		base[parHi] = int64(b2i(p.M == 1 && p.Format.Group >= 32))
	case fourStreams(isa, p):
		base[parChunk] = min(base[parChunk], 1) // of four panels, as of one stream
	default:
		base[parPrefetch] = 1024
		if p.M > 1 && p.Arith == kernel.A8 {
			base[parPrefetch] = 4096
		}
		// The planes of six bits in F32 need more registers for activations than there are.
		base[parOrder] = int64(b2i(p.M > 1 || p.Arith == kernel.A16 || p.Format.Bits == 6 && p.Arith == kernel.F32))
	}
	unroll := []int64{64, 32, 16, 8, 4, 2, 1}
	switch {
	case p.M == 1:
		unroll = append([]int64{128}, unroll...)
	case !isa.EVEX && (p.Arith == kernel.A8 || p.Arith == kernel.A16 && p.M > 8):
		unroll = unroll[p.Arith.Bytes():] // a longer body leaves the cache of decoded instructions
	}
	var out []kernel.Config
	for _, t := range defaultTiles(isa, p) {
		for fmem := range int64(2) {
			for _, ku := range unroll {
				c := base.Clone()
				c[parMR], c[parStreams], c[parVecs], c[parFMem], c[parKU] = t[0], t[1], t[2], fmem, ku
				out = append(out, c)
			}
		}
	}
	return out
}

// blockKiB is how much of a weight matrix is kept for all rows: a part of the second-level cache, through which
// activations and results stream beside it. A quarter was measured on AVX2 (RATIONALE.md); 768 KiB of 2 MiB is
// an estimate. Where the size is not known it is that of Zen 3 or of Sapphire Rapids.
func blockKiB(isa ISA) int64 {
	switch {
	case isa.EVEX && isa.L2 > 0:
		return max(64, int64(isa.L2)*3/8)
	case isa.EVEX:
		return 768
	case isa.L2 > 0:
		return max(64, int64(isa.L2)/4)
	}
	return 128
}

// defaultTiles lists register tiles, rows by streams by vectors of a panel, the best first.
func defaultTiles(isa ISA, p kernel.Problem) [][3]int64 {
	vecs := int64(p.Layout.Cols * isa.Halves())
	var out [][3]int64
	tiles := func(ts ...[3]int64) {
		for _, t := range ts {
			t[2] = min(t[2], vecs)
			out = append(out, t)
		}
	}
	switch {
	case fourStreams(isa, p):
		tiles([3]int64{1, 4, 2}, [3]int64{1, 1, 2})
	case p.M == 1 && !isa.VNNI:
		tiles([3]int64{1, 1, 2})
	case p.M == 1:
		tiles([3]int64{1, 2, 2})
	case p.M <= 8 && isa.EVEX:
		tiles([3]int64{4, 2, 2}, [3]int64{4, 1, 2})
	case p.M <= 8:
		tiles([3]int64{4, 1, 4}, [3]int64{4, 1, 2}, [3]int64{4, 1, 1})
	case isa.EVEX && p.M <= 16:
		tiles([3]int64{16, 1, 1})
	case isa.EVEX && p.M <= 64:
		tiles([3]int64{13, 1, 2})
	case isa.EVEX:
		tiles([3]int64{12, 1, 2})
	case isa.VNNI && p.M > 16 && p.Arith != kernel.F32:
		tiles([3]int64{6, 1, 2}, [3]int64{4, 1, 2}) // ten accumulators hide the latency of two dot products a cycle
	case p.Format.Bits == 6 && p.Arith != kernel.F32:
		tiles([3]int64{4, 1, 2}, [3]int64{3, 1, 2})
	case p.Arith == kernel.A8 && p.M > 64:
		tiles([3]int64{5, 1, 2}, [3]int64{4, 1, 2}) // two registers are left for constants and scales
	case p.Arith == kernel.A8 || p.Arith == kernel.A16 && p.M <= 16:
		tiles([3]int64{4, 1, 2}) // few rows are a multiple of four more often than of six
	default:
		tiles([3]int64{6, 1, 2}, [3]int64{4, 1, 2}, [3]int64{3, 1, 2})
	}
	for _, mr := range []int64{8, 4, 2, 1} {
		for v := vecs; v > 0; v /= 2 {
			tiles([3]int64{mr, 1, v})
		}
	}
	return out
}
