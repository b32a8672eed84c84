package app

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
	"github.com/tilewright/tilewright/tuner/lock"
	"github.com/tilewright/tilewright/tuner/resolve"
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
	f, err := changeFeatures(p.Features(), isa, func(name string) bool { return host.Executes(ctx, name) })
	if err != nil {
		return nil, err
	}
	cpus := p.CPUs()
	return &Host{Profile: p, Features: f, CPUs: cpus[:min(len(cpus), p.Threads())], Key: resolve.HostKey(p, f)}, nil
}

// Knobs are the default knobs for a number of threads on this machine.
func (h *Host) Knobs(threads int) kernel.Knobs { return h.spare(kernel.DefaultKnobs(threads)) }

// spare turns spinning off under a CPU quota, where time spent waiting is taken from the work.
func (h *Host) spare(k kernel.Knobs) kernel.Knobs {
	if h.Limits.Quota > 0 {
		k.SpinMicros = 0
	}
	return k
}

// changeFeatures adds and removes features. What the CPU does not advertise may be added if it executes: a
// hypervisor may hide it because the next machine lacks it. Names that this program does not know may be
// added too, for backends of third parties that ask for them.
func changeFeatures(f kernel.Features, isa string, executes func(name string) bool) (kernel.Features, error) {
	usable, known := f, host.FeatureNames(runtime.GOARCH)
	for _, w := range strings.FieldsFunc(isa, func(r rune) bool { return r == ',' }) {
		name := w[1:]
		switch {
		case name == "" || w[0] != '+' && w[0] != '-' || strings.Contains(name, "="): // sizes of caches are no features
			return nil, cli.Usagef("--isa %q: want +FEATURE or -FEATURE, comma separated", w)
		case w[0] == '-' && !f.Has(name) && !slices.Contains(known, name):
			return nil, cli.Usagef("--isa %s: no such feature (there are: %s)", w, strings.Join(known, ", "))
		case w[0] == '-':
			f = f.Without(name)
		case !usable.Has(name) && slices.Contains(known, name) && !executes(name):
			return nil, cli.Usagef("--isa %s: this machine cannot execute it: tune host lists what it can", w)
		default:
			f = kernel.NewFeatures(append(f, name)...)
		}
	}
	return f, nil
}

// LockHost keeps other measurements off this machine until the returned function is called. Where
// another one runs, it warns and goes on.
func LockHost() (release func()) {
	l, err := lock.Acquire()
	if err != nil {
		slog.Warn("measuring beside another measurement", "why", err)
		return func() {}
	}
	return func() { l.Release() }
}
