package x86

import "github.com/tilewright/tilewright/kernel"

// linearDefaults are the declared defaults.
func linearDefaults(isa ISA, p kernel.Problem) kernel.Config {
	c := kernel.Config{parMR: 1, parStreams: 1, parCols: int64(p.Layout.Cols), parKU: 32, parPrefetch: 1024, parHint: 1}
	switch {
	case p.M == 1:
		c[parStreams] = 2
	case p.M <= 8:
		c[parMR] = 2
	default:
		c[parMR], c[parOrder], c[parPanel], c[parBlock] = 2, 1, 1, 384
		c[parPrefetch] = 0
		if p.Arith != kernel.F32 {
			c[parFMem] = 1
		}
	}
	return c
}
