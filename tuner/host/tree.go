package host

import (
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// tree reads small files of /proc and /sys.
type tree struct{ fs.FS }

// text is the trimmed content of a file, "" if it cannot be read. At most 1 MiB.
func (t tree) text(path string) string {
	f, err := t.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (t tree) exists(path string) bool {
	_, err := fs.Stat(t.FS, path)
	return err == nil
}

// numbered lists the entries of a directory named prefix + number, by number.
func (t tree) numbered(dir, prefix string) []int {
	entries, err := fs.ReadDir(t.FS, dir)
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), prefix); ok {
			if id, err := strconv.Atoi(n); err == nil && id >= 0 {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return out
}

// chosen is the bracketed word of a sysfs choice: "always [madvise] never".
func chosen(s string) string {
	if _, rest, ok := strings.Cut(s, "["); ok {
		word, _, _ := strings.Cut(rest, "]")
		return word
	}
	return s
}

// number parses a decimal or 0x number, 0 if it is none.
func number(s string) int {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// maxCPU bounds the ids of CPU lists, so that a hostile file cannot ask for gigabytes.
const maxCPU = 1 << 14

// cpuList parses a list like "0-3,8,10-11"; what is malformed is skipped.
func cpuList(s string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		lo, hi, dash := strings.Cut(part, "-")
		if !dash {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 0 || b >= maxCPU {
			continue
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bytesOf parses "512K", "32768K", "1M" or a plain number of bytes.
func bytesOf(s string) int64 {
	unit := int64(1)
	for suffix, u := range map[string]int64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if t, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = t, u
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0
	}
	return n * unit
}
