package kernel

import (
	"slices"
	"sort"
)

// Features are the instruction-set features of a host, sorted, in /proc/cpuinfo spelling on amd64
// (avx2, fma, f16c, avx512f, avx512bw, avx512vl, avx512_vnni, amx_int8 ...) and in HWCAP spelling on
// arm64 (asimd, asimddp, i8mm ...).
type Features []string

// NewFeatures sorts and removes duplicates.
func NewFeatures(names ...string) Features {
	f := slices.Clone(names)
	sort.Strings(f)
	return slices.Compact(f)
}

// Has reports whether all names are present.
func (f Features) Has(names ...string) bool { return len(f.Missing(names)) == 0 }

// Missing lists the names that are absent.
func (f Features) Missing(names []string) []string {
	var out []string
	for _, n := range names {
		if _, ok := slices.BinarySearch(f, n); !ok {
			out = append(out, n)
		}
	}
	return out
}

// Without returns f less the given names.
func (f Features) Without(names ...string) Features {
	return slices.DeleteFunc(slices.Clone(f), func(n string) bool { return slices.Contains(names, n) })
}
