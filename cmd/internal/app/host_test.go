package app

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
)

// A feature that the CPU lacks is refused, where it would end in SIGILL; a misspelt one too. One that is only
// hidden may be added.
func TestISA(t *testing.T) {
	known := host.FeatureNames(runtime.GOARCH)
	have := kernel.NewFeatures(known[:3]...)
	for isa, want := range map[string]string{
		"":                               "",
		"-" + known[0]:                   "",
		"-" + known[0] + ",+" + known[0]: "",
		"-" + known[5]:                   "",
		"+" + known[1]:                   "",
		"+vendor_op":                     "",
		"+vendor_op,-vendor_op":          "",
		"+" + known[5]:                   "cannot execute",
		"+" + known[6]:                   "",
		"-vendor_op":                     "no such feature",
		"vendor_op":                      "want +FEATURE",
		"+":                              "want +FEATURE",
		"+l2_kib=64":                     "want +FEATURE",
	} {
		got, err := changeFeatures(have, isa, func(name string) bool { return name == known[6] })
		if want == "" && err != nil || want != "" && (!errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", isa, err, want)
		}
		if isa == "-"+known[0] && (err != nil || !slices.Equal(got, have.Without(known[0]))) {
			t.Errorf("%q: %v", isa, got)
		}
	}
}
