package app

import (
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/host"
)

// Under a quota no worker spins, whatever a tune found without one.
func TestNoSpinUnderQuota(t *testing.T) {
	free, bound := &Host{Profile: &host.Profile{}}, &Host{Profile: &host.Profile{}}
	bound.Limits.Quota = 1.5
	if k := free.Knobs(2); k != kernel.DefaultKnobs(2) || k.SpinMicros == 0 {
		t.Errorf("without a quota: %+v", k)
	}
	if k := bound.Knobs(2); k.SpinMicros != 0 || k.ThreadsDecode != 2 {
		t.Errorf("with a quota: %+v", k)
	}
	if k := bound.spare(kernel.Knobs{SpinMicros: 50, RepackRows: 7}); k != (kernel.Knobs{RepackRows: 7}) {
		t.Errorf("tuned knobs under a quota: %+v", k)
	}
}
