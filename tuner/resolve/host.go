package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
)

// hostNamed are the soft facts of a profile that HostKey has fields for.
var hostNamed = []string{"Settings.Kernel", "Settings.Microcode", "Settings.Mitigations", "Settings.THP", "Settings.Governor",
	"Settings.NUMABalance", "Topology.Nodes", "Topology.Classes"}

// HostKey is what of a host, with the features that may be used there, decides whether results hold.
// Soft facts that it has no field for are taken along by reflection.
func HostKey(p *host.Profile, f kernel.Features) cache.HostKey {
	s := p.Settings
	var mit []string
	for _, k := range slices.Sorted(maps.Keys(s.Mitigations)) {
		mit = append(mit, k+"="+s.Mitigations[k])
	}
	quota := "none"
	if p.Limits.Quota > 0 {
		quota = fmt.Sprintf("%.2f", p.Limits.Quota)
	}
	return cache.HostKey{
		Arch: p.Arch, CPU: fmt.Sprintf("%s %d %d", p.CPU.Vendor, p.CPU.Family, p.CPU.Model), Features: f,
		Microcode: s.Microcode, Mitigations: strings.Join(mit, "; "), Kernel: s.Kernel, THP: s.THP, Governor: s.Governor,
		NUMA: fmt.Sprintf("%d nodes, balancing %s", p.Topology.Nodes, s.NUMABalance), CoreClass: strings.Join(p.Topology.Classes, "+"),
		Quota: quota, Other: otherFacts(p), Hostname: p.Hostname,
	}
}

func otherFacts(p *host.Profile) map[string]string {
	out := map[string]string{}
	for _, f := range kernel.KeyFields(*p) {
		path, _, _ := strings.Cut(f.Path, "[")
		if f.Class == kernel.Soft && !slices.Contains(hostNamed, path) {
			out[f.Path] = f.Value
		}
	}
	return out
}
