// Command simulate compares the search strategies where the truth is known: on synthetic tunes, with
// exhaustive search and the naive best of three beside them, and on recorded runs of a real machine.
//
//	go run ./search/simulate                  # 20 tunes of each tuner in each of 24 scenarios
//	go run ./search/simulate -full -tunes 60  # scenario by scenario
//	go run ./search/simulate -develop         # the scenarios to develop strategies on
//	go run ./search/simulate -heldout         # families of landscapes that nothing was tuned on
//	go run ./search/simulate -fresh           # and some that were written when all was settled
//	go run ./search/simulate -recording search/replay/testdata/decode.json.gz -steps 160
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/tilewright/tilewright/search/replay"
	"github.com/tilewright/tilewright/search/sim"
)

func main() {
	tunes := flag.Int("tunes", 20, "synthetic tunes of each tuner in each scenario; replays of each strategy")
	heldOut := flag.Bool("heldout", false, "the scenarios that nothing was tuned on")
	develop := flag.Bool("develop", false, "the scenarios to develop strategies on")
	fresh := flag.Bool("fresh", false, "scenarios that were written when the strategies were settled")
	full := flag.Bool("full", false, "every scenario, not totals alone")
	only := flag.String("tuners", "", "names, comma separated; all if empty")
	file := flag.String("recording", "", "replay this recording instead")
	p := replay.Plan{}
	flag.IntVar(&p.Steps, "steps", sim.DecodePlan.Steps, "steps of a replayed search")
	flag.IntVar(&p.Layers, "layers", sim.DecodePlan.Layers, "layers that a step times")
	flag.Float64Var(&p.Keep, "keep", sim.DecodePlan.Keep, "share of the steps for the finalists")
	flag.Parse()
	debug.SetGCPercent(400) // a simulation keeps little and makes much
	if *file == "" {
		scenarios := sim.Scenarios()
		switch {
		case *heldOut:
			scenarios = sim.HeldOut()
		case *fresh:
			scenarios = sim.Fresh()
		case *develop:
			scenarios = sim.Develop()
		}
		synthetic(*tunes, *only, *full, scenarios)
		return
	}
	rec, err := replay.Open(*file)
	var lines []replay.Line
	if err == nil {
		name, _, _ := strings.Cut(filepath.Base(*file), ".")
		lines, err = replay.Report(name, rec, p, *tunes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
	fmt.Print(replay.Table(lines))
}

func synthetic(tunes int, only string, full bool, scenarios []sim.Scenario) {
	var ts []sim.Tuner
	for _, t := range sim.Tuners() {
		if only == "" || strings.Contains(","+only+",", ","+t.Name+",") {
			ts = append(ts, t)
		}
	}
	lines := sim.Report(tunes, ts, scenarios)
	if full {
		fmt.Print(sim.Table(lines))
	}
	fmt.Print(sim.Table(sim.Totals(lines)))
}
