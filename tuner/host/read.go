package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/kernel"
)

// Source is where a profile comes from.
type Source struct {
	FS   fs.FS  // rooted at /
	Arch string // GOARCH
	// Affinity lists the CPUs this process may run on; nil for all.
	Affinity func() ([]int, error)
	// Advertised tells what the CPU itself says of a feature that the kernel lists; nil to believe
	// the kernel.
	Advertised func(name string) bool
	// Execute runs an instruction of each feature and returns those that worked; nil to believe what
	// is advertised.
	Execute func(ctx context.Context, names []string) ([]string, error)
}

// Live is this machine.
func Live() Source {
	return Source{FS: os.DirFS("/"), Arch: runtime.GOARCH, Affinity: affinity, Advertised: advertised, Execute: execute}
}

// Recorded is a tree of files, taken from a machine of the given GOARCH.
func Recorded(tree fs.FS, arch string) Source { return Source{FS: tree, Arch: arch} }

// Read takes the profile. A file that is missing leaves its field empty: containers hide many.
func Read(ctx context.Context, s Source) (*Profile, error) {
	t := tree{s.FS}
	info := parseCPUInfo(t.text("proc/cpuinfo"))
	p := &Profile{Schema: Schema, Arch: s.Arch, CPU: info.cpu, Hostname: t.text("proc/sys/kernel/hostname")}
	var err error
	if p.Topology, err = t.topology(info.count); err != nil {
		return nil, err
	}
	if p.Limits, err = t.limits(p.Topology.CPUs, s.Affinity); err != nil {
		return nil, err
	}
	p.Topology.Caches = t.caches(p.CPUs())
	p.Memory = t.memory()
	p.Settings = t.settings(info, p.Limits.Allowed)
	p.Power = t.power(p.Topology.CPUs)

	names := known(s.Arch, info.flags)
	if s.Advertised != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return !s.Advertised(n) })
	}
	p.Usable = names
	if s.Execute != nil {
		ok, err := s.Execute(ctx, names)
		if err != nil {
			return nil, fmt.Errorf("probe of CPU features: %w", err)
		}
		p.Probed, p.Usable = true, kernel.NewFeatures(ok...)
		p.Refused = kernel.Features(names).Without(ok...)
	}
	return p, nil
}

// known picks the features that this program knows out of a CPU's flags, sorted.
func known(arch string, flags []string) []string {
	list := isaAMD64
	if arch == "arm64" {
		list = isaARM64
	}
	var out []string
	for _, f := range list {
		if slices.Contains(flags, f.name) {
			out = append(out, f.name)
		}
	}
	return kernel.NewFeatures(out...)
}

func affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var out []int
	for id := range len(set) * 64 {
		if set.IsSet(id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// cpuInfo is what /proc/cpuinfo says of the first CPU.
type cpuInfo struct {
	cpu       CPU
	microcode string
	flags     []string
	count     int
}

func parseCPUInfo(text string) cpuInfo {
	var c cpuInfo
	first := map[string]string{}
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if k == "processor" {
			c.count++
		}
		if _, dup := first[k]; !dup {
			first[k] = v
		}
	}
	c.cpu = CPU{Vendor: first["vendor_id"], Family: number(first["cpu family"]), Model: number(first["model"]),
		Stepping: number(first["stepping"]), Name: first["model name"]}
	c.flags, c.microcode = strings.Fields(first["flags"]), first["microcode"]
	if part := first["CPU part"]; part != "" { // arm64
		c.cpu = CPU{Vendor: first["CPU implementer"], Family: number(first["CPU architecture"]), Model: number(part),
			Stepping: number(first["CPU revision"]), Name: first["model name"]}
		c.flags = strings.Fields(first["Features"])
	}
	return c
}
