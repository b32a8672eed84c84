package app

import (
	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/pool"
	"github.com/tilewright/tilewright/kernel"
	"golang.org/x/sys/cpu"
)

// Host is this machine as the commands see it.
type Host struct {
	Features kernel.Features
	CPUs     []int // that may be used, one for each core, in order of preference
	Key      cache.HostKey
}

// NewHost interim.
func NewHost(isa string) (*Host, error) {
	cpus, err := pool.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	var names []string
	for n, ok := range map[string]bool{"avx2": cpu.X86.HasAVX2, "fma": cpu.X86.HasFMA, "f16c": cpu.X86.HasAVX2,
		"avx512f": cpu.X86.HasAVX512F, "avx512bw": cpu.X86.HasAVX512BW, "avx512vl": cpu.X86.HasAVX512VL, "avx512_vnni": cpu.X86.HasAVX512VNNI} {
		if ok {
			names = append(names, n)
		}
	}
	f := kernel.NewFeatures(names...)
	return &Host{Features: f, CPUs: cpus, Key: cache.HostKey{Features: f}}, nil
}
