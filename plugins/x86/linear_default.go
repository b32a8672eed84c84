package x86

import "github.com/tilewright/tilewright/kernel"

// linearDefaults are the declared defaults in order of preference: the first that the registers
// allow counts.
func linearDefaults(isa ISA, p kernel.Problem) []kernel.Config {
	base := kernel.Config{parKU: 32, parPrefetch: 1024, parHint: 1}
	if p.M > 8 {
		base[parOrder], base[parPanel], base[parBlock], base[parPrefetch] = 1, 1, 384, 0
	}
	var out []kernel.Config
	for _, mr := range defaultRows(isa, p) {
		for _, streams := range []int64{2, 1} {
			for cols := int64(p.Layout.Cols); cols > 0; cols /= 2 {
				for fmem := range int64(2) {
					c := base.Clone()
					c[parMR], c[parStreams], c[parCols], c[parFMem] = mr, streams, cols, fmem
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func defaultRows(isa ISA, p kernel.Problem) []int64 {
	switch {
	case p.M == 1:
		return []int64{1}
	case p.M <= 8:
		return []int64{4, 2, 1}
	case isa.EVEX:
		return []int64{12, 8, 6, 4, 2, 1}
	}
	return []int64{4, 3, 2, 1}
}
