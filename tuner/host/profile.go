// Package host describes the machine that is tuned for: what its CPU can execute, how its cores and
// caches are laid out, what this process may use of them, and the settings that move timings. All
// but the execution probe reads an fs.FS rooted at /, so that a recorded tree replays.
package host

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// Schema is the version of a profile's JSON.
const Schema = 1

// Profile is a host as far as tuning cares. Key tags: a different hard field is a different host, a
// different soft field asks for revalidation, the rest only informs.
type Profile struct {
	Schema   int      `json:"schema" key:"-"`  // of the JSON, not of the host
	Arch     string   `json:"arch" key:"hard"` // GOARCH
	CPU      CPU      `json:"cpu" key:"hard"`
	Usable   []string `json:"features" key:"hard"` // advertised and executed, sorted
	Refused  []string `json:"features_refused,omitempty" key:"-"`
	Probed   bool     `json:"features_probed" key:"-"` // Usable was executed, not only advertised
	Topology Topology `json:"topology" key:"soft"`
	Limits   Limits   `json:"limits" key:"-"` // the CPUs in use are part of the arm and of the decision key
	Memory   Memory   `json:"memory" key:"-"`
	Settings Settings `json:"settings" key:"soft"`
	Power    Power    `json:"power" key:"-"`
	Hostname string   `json:"hostname,omitempty" key:"-"`
}

// CPU identifies a processor model. Names are for people: a virtual machine reports what it likes.
type CPU struct {
	Vendor   string `json:"vendor" key:"hard"`
	Family   int    `json:"family" key:"hard"`
	Model    int    `json:"model" key:"hard"`
	Stepping int    `json:"stepping" key:"soft"`
	Name     string `json:"name" key:"-"`
}

// Topology is how the CPUs are laid out.
type Topology struct {
	Packages int       `json:"packages" key:"soft"`
	Cores    int       `json:"cores" key:"soft"`   // physical
	Threads  int       `json:"threads" key:"soft"` // logical
	Nodes    int       `json:"numa_nodes" key:"soft"`
	Classes  []string  `json:"core_classes" key:"soft"` // of the cores, fastest first: "p", "e"
	Caches   []Cache   `json:"caches" key:"soft"`       // as CPU 0 (the first of the fastest class) sees them
	CPUs     []Logical `json:"cpus" key:"-"`
}

// Logical is one logical CPU.
type Logical struct {
	ID      int    `json:"id" key:"-"`
	Core    int    `json:"core" key:"-"` // within its package
	Package int    `json:"package" key:"-"`
	Node    int    `json:"node" key:"-"`
	Class   string `json:"class" key:"-"`
}

// Cache is one cache.
type Cache struct {
	Level  int    `json:"level" key:"soft"`
	Type   string `json:"type" key:"soft"` // data, instruction, unified
	Bytes  int64  `json:"bytes" key:"soft"`
	Line   int    `json:"line" key:"soft"`
	Shared int    `json:"shared_by" key:"soft"` // logical CPUs
}

// Limits are what this process may use.
type Limits struct {
	Allowed     []int   `json:"allowed" key:"-"`                  // logical CPUs: online, in the cpuset, in the affinity mask
	Quota       float64 `json:"quota_cpus,omitempty" key:"-"`     // CPUs' worth of time a cgroup grants, 0 for no limit
	MemoryBytes int64   `json:"memory_bytes,omitempty" key:"-"`   // cgroup limit, 0 for none
	Cgroup      string  `json:"cgroup_version,omitempty" key:"-"` // v1, v2
}

// Memory sizes in bytes.
type Memory struct {
	Total     int64 `json:"total" key:"-"`
	Available int64 `json:"available" key:"-"`
	SwapTotal int64 `json:"swap_total" key:"-"`
}

// Settings move timings without changing what a kernel is.
type Settings struct {
	Kernel      string            `json:"kernel" key:"soft"` // release
	Microcode   string            `json:"microcode" key:"soft"`
	Mitigations map[string]string `json:"mitigations" key:"soft"`
	THP         string            `json:"thp" key:"soft"` // always, madvise, never
	THPDefrag   string            `json:"thp_defrag" key:"soft"`
	Governor    string            `json:"governor" key:"soft"` // of the allowed CPUs; "mixed"
	Boost       string            `json:"boost" key:"soft"`
	NUMABalance string            `json:"numa_balancing" key:"soft"`
	Hypervisor  string            `json:"hypervisor" key:"soft"` // "" on bare metal
	SMT         string            `json:"smt" key:"soft"`        // on, off, forceoff, notsupported
}

// Power is the state of supplies and of the thermal governor when the profile was taken.
type Power struct {
	OnBattery bool    `json:"on_battery" key:"-"`
	MaxTempC  float64 `json:"max_temp_c,omitempty" key:"-"`
	Throttles int64   `json:"thermal_throttles" key:"-"` // events since boot, all cores
}

// Features are the usable features.
func (p *Profile) Features() kernel.Features { return kernel.NewFeatures(p.Usable...) }

// BackendFeatures are the given features and the caches of a core, as backends are told of them.
func (p *Profile) BackendFeatures(f kernel.Features) kernel.Features {
	for level := 1; level <= 3; level++ {
		f = f.WithCache(level, p.cachePerCore(level))
	}
	return f
}

// cachePerCore is a core's share of a level of data cache, in bytes, 0 if it is not known. A cache that many
// cores share, such as the second level of efficient cores, counts in equal parts.
func (p *Profile) cachePerCore(level int) int64 {
	for _, c := range p.Topology.Caches {
		if c.Level == level && c.Type != "instruction" {
			perCore := max(1, p.siblings())
			return c.Bytes / int64(max(1, c.Shared/perCore))
		}
	}
	return 0
}

// siblings is the number of logical CPUs of the core whose caches the profile describes.
func (p *Profile) siblings() (n int) {
	cpus := p.CPUs()
	if len(cpus) == 0 {
		return 1
	}
	first := p.Topology.CPUs[slices.IndexFunc(p.Topology.CPUs, func(c Logical) bool { return c.ID == cpus[0] })]
	for _, c := range p.Topology.CPUs {
		if c.Core == first.Core && c.Package == first.Package {
			n++
		}
	}
	return n
}

// Digest identifies the host by its hard fields.
func (p *Profile) Digest() string { return kernel.KeyDigest(*p) }

// CPUs lists one logical CPU for each physical core that this process may use, of the fastest class
// among them: the CPUs that workers are pinned to by default. SMT siblings share a core's ports.
func (p *Profile) CPUs() []int {
	best := ""
	for _, c := range p.Topology.CPUs {
		if slices.Contains(p.Limits.Allowed, c.ID) && (best == "" || faster(c.Class, best)) {
			best = c.Class
		}
	}
	type core struct{ pkg, core int }
	seen := map[core]bool{}
	var out []int
	for _, c := range p.Topology.CPUs {
		k := core{c.Package, c.Core}
		if c.Class == best && !seen[k] && slices.Contains(p.Limits.Allowed, c.ID) {
			seen[k] = true
			out = append(out, c.ID)
		}
	}
	return out
}

// Threads is the default number of workers: the physical cores of CPUs, no more than a whole number
// of the CPUs that the quota grants, at least one.
func (p *Profile) Threads() int {
	n := max(1, len(p.CPUs()))
	if q := p.Limits.Quota; q > 0 {
		n = min(n, max(1, int(math.Floor(q))))
	}
	return n
}

// Write writes the profile as JSON.
func (p *Profile) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(p)
}

// Parse reads a profile that Write wrote.
func Parse(r io.Reader) (*Profile, error) {
	var p Profile
	d := json.NewDecoder(io.LimitReader(r, 16<<20))
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("host profile: %w", err)
	}
	switch {
	case p.Schema != Schema:
		return nil, fmt.Errorf("host profile: schema %d, this build reads %d", p.Schema, Schema)
	case p.Arch == "" || len(p.Topology.CPUs) == 0 || len(p.Limits.Allowed) == 0:
		return nil, fmt.Errorf("host profile: no architecture or no CPUs: not a recorded profile")
	}
	p.Usable = kernel.NewFeatures(p.Usable...)
	return &p, nil
}
