package app

import (
	"github.com/tilewright/tilewright/tuner/probe"
	"github.com/tilewright/tilewright/tuner/runner"
)

// MaybeRun serves as a runner and exits, if a tuner started this process for that.
func MaybeRun() { runner.MaybeServe(runner.Deps{Open: OpenModel, Probe: probe.Check}) }
