package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
)

// Host is this machine as the commands see it.
type Host struct {
	*host.Profile
	Features kernel.Features // usable, as --isa changed them
	CPUs     []int           // one for each usable core, no more than the quota grants
	Key      cache.HostKey
}

// NewHost profiles this machine. isa adds and removes features: +avx512_bf16,-avx512f.
func NewHost(ctx context.Context, isa string) (*Host, error) {
	p, err := host.Read(ctx, host.Live())
	if err != nil {
		return nil, fmt.Errorf("profile this machine: %w", err)
	}
	f := p.Features()
	for _, w := range strings.FieldsFunc(isa, func(r rune) bool { return r == ',' }) {
		switch {
		case len(w) > 1 && w[0] == '+':
			f = kernel.NewFeatures(append(f, w[1:])...)
		case len(w) > 1 && w[0] == '-':
			f = f.Without(w[1:])
		default:
			return nil, cli.Usagef("--isa %q: want +FEATURE or -FEATURE, comma separated", w)
		}
	}
	cpus := p.CPUs()
	return &Host{Profile: p, Features: f, CPUs: cpus[:min(len(cpus), p.Threads())], Key: hostKey(p, f)}, nil
}

func hostKey(p *host.Profile, f kernel.Features) cache.HostKey {
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
		Quota: quota, Hostname: p.Hostname,
	}
}
