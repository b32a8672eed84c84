package kernel

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Features are the instruction-set features of a host, sorted, in /proc/cpuinfo spelling on amd64
// (avx2, fma, f16c, avx512f, avx512bw, avx512vl, avx512_vnni, amx_int8 ...) and in HWCAP spelling on
// arm64 (asimd, asimddp, i8mm ...). What a host asks backends with also tells its caches: see WithCache.
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

// WithCache returns f and how much of a level of data cache a core has, in bytes, as a name that no
// backend can require: "l2_kib=2048". What backends declare as defaults may follow it; what they emit for
// a configuration may not, since it is no part of an artifact's key. It replaces what f told of the level; 0 stands for unknown.
func (f Features) WithCache(level int, bytes int64) Features {
	f = slices.DeleteFunc(slices.Clone(f), func(n string) bool { return strings.HasPrefix(n, cachePrefix(level)) })
	if bytes >= 1<<10 {
		f = append(f, fmt.Sprintf("%s%d", cachePrefix(level), bytes>>10))
	}
	return NewFeatures(f...)
}

// Cache is what WithCache told of a level, 0 for nothing.
func (f Features) Cache(level int) int64 {
	for _, n := range f {
		if kib, ok := strings.CutPrefix(n, cachePrefix(level)); ok {
			if v, err := strconv.ParseUint(kib, 10, 40); err == nil {
				return int64(v) << 10
			}
		}
	}
	return 0
}

func cachePrefix(level int) string { return fmt.Sprintf("l%d_kib=", level) }
