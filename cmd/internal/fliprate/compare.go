package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Run is what a tune decided.
type Run struct {
	Verdicts []Verdict
	Kept     int // A/A pairs
	Dropped  int
	Blocks   []Stage // of the parts of the tune
	Noise    *float64
	Refused  string // the tune would not judge
}

// Stage says how many blocks of a part of a tune counted.
type Stage struct {
	Stage string `json:"stage"`
	Kept
}

// Kept is "kept k of n".
type Kept struct {
	Kept int `json:"kept"`
	Of   int `json:"of"`
}

// Verdict is one of a tune's, as tune --json prints it.
type Verdict struct {
	Phase    string           `json:"phase"`
	Weights  string           `json:"weights"`
	Problem  string           `json:"problem"`
	Config   map[string]int64 `json:"config"`
	Decision string           `json:"decision"`
	Why      string           `json:"why"`
	Finalist bool             `json:"finalist"`
	Ratio    struct {
		Median, Lo, Hi *float64
	} `json:"ratio"`
}

// Parse reads the output of tune --json.
func Parse(b []byte) (Run, error) {
	var d struct {
		Schema int
		Floor  *struct {
			Noise   *float64 `json:"aa_noise"`
			Kept    int
			Dropped int
		}
		Blocks   []Stage
		Verdicts []Verdict
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return Run{}, fmt.Errorf("not the output of tune --json: %w", err)
	}
	if d.Schema != 1 || d.Floor == nil {
		return Run{}, errors.New("not the output of tune --json of schema 1")
	}
	return Run{Verdicts: d.Verdicts, Kept: d.Floor.Kept, Dropped: d.Floor.Dropped, Noise: d.Floor.Noise, Blocks: d.Blocks}, nil
}

func (r Run) line() string {
	if r.Refused != "" {
		return "refused: " + r.Refused
	}
	var out []string
	for _, v := range r.Verdicts {
		if v.Problem == whole {
			out = append(out, fmt.Sprintf("%s %s: %s, %s", v.Phase, v.Weights, v.claim(), v.Why))
		}
	}
	return strings.Join(out, "; ")
}

// whole is the problem of a verdict on a whole phase.
const whole = "whole"

// claim is what a verdict on a whole phase says: nothing, faster, or slower.
func (v Verdict) claim() string {
	switch {
	case v.Decision == "winner":
		return "winner"
	case v.Ratio.Hi != nil && *v.Ratio.Hi < 1:
		return "slower"
	}
	return "tie"
}

// Phase compares the verdicts on a phase over the runs.
type Phase struct {
	Phase   string         `json:"phase"`
	Weights string         `json:"weights"`
	Claims  map[string]int `json:"claims"` // winner, slower, tie
	Pairs   int            `json:"pairs"`  // of runs
	Flips   int            `json:"flips"`  // pairs that contradict each other
	// Differ counts pairs of winners whose composed configurations are not the same; they flip only
	// if their intervals are disjoint too: else both found as good.
	Differ int       `json:"winners_differ"`
	Ratios []float64 `json:"ratios"`
	Spread float64   `json:"spread"` // greatest ratio over least, less one
}

// Class counts how often a class of weights had the same finalist.
type Class struct {
	Problem   string `json:"problem"`
	Finalists int    `json:"finalists"` // runs that found one
	Distinct  int    `json:"distinct"`
}

// Result is what the runs say together.
type Result struct {
	Runs     int     `json:"runs"`
	Refused  int     `json:"refused"`
	Stressed bool    `json:"stressed"`
	FlipRate float64 `json:"flip_rate"` // flips over pairs, all phases
	Phases   []Phase `json:"phases"`
	Classes  []Class `json:"classes"`
	// Floor and Blocks are the blocks that counted, over all runs: A/A pairs, and those of each stage.
	Floor  Kept    `json:"floor_blocks"`
	Blocks []Stage `json:"blocks,omitempty"`
}

// Compare compares runs of the same tune.
func Compare(runs []Run) Result {
	r := Result{Runs: len(runs)}
	phases, classes := map[[2]string][]outcome{}, map[string][]string{}
	for _, x := range runs {
		if x.Refused != "" {
			r.Refused++
			continue
		}
		r.Floor.Kept += x.Kept
		r.Floor.Of += x.Kept + x.Dropped
		for _, b := range x.Blocks {
			i := slices.IndexFunc(r.Blocks, func(s Stage) bool { return s.Stage == b.Stage })
			if i < 0 {
				i, r.Blocks = len(r.Blocks), append(r.Blocks, Stage{Stage: b.Stage})
			}
			r.Blocks[i].Kept.Kept += b.Kept.Kept
			r.Blocks[i].Of += b.Of
		}
		for _, v := range x.Verdicts {
			if v.Problem == whole {
				k := [2]string{v.Phase, v.Weights}
				phases[k] = append(phases[k], outcome{v, composed(x.Verdicts, v.Phase, v.Weights)})
			} else if classes[v.Problem] == nil || v.Finalist {
				list := classes[v.Problem]
				if v.Finalist {
					list = append(list, text(v.Config))
				}
				classes[v.Problem] = append([]string{}, list...)
			}
		}
	}
	pairs, flips := 0, 0
	for _, k := range slices.SortedFunc(maps.Keys(phases), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		p := phase(k, phases[k])
		r.Phases = append(r.Phases, p)
		pairs, flips = pairs+p.Pairs, flips+p.Flips
	}
	if pairs > 0 {
		r.FlipRate = float64(flips) / float64(pairs)
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		c := Class{Problem: name, Finalists: len(classes[name])}
		c.Distinct = len(slices.Compact(slices.Sorted(slices.Values(classes[name]))))
		r.Classes = append(r.Classes, c)
	}
	return r
}

// outcome is a verdict on a phase and the configurations that it is of.
type outcome struct {
	Verdict
	arm string
}

// composed lists the finalists of a phase.
func composed(vs []Verdict, phase, weights string) string {
	var out []string
	for _, v := range vs {
		if v.Phase == phase && v.Weights == weights && v.Finalist {
			out = append(out, v.Problem+" "+text(v.Config))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func text(c map[string]int64) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		out = append(out, fmt.Sprintf("%s=%d", k, c[k]))
	}
	return strings.Join(out, " ")
}

func phase(k [2]string, all []outcome) Phase {
	p := Phase{Phase: k[0], Weights: k[1], Claims: map[string]int{}}
	for i, a := range all {
		p.Claims[a.claim()]++
		if a.Ratio.Median != nil {
			p.Ratios = append(p.Ratios, *a.Ratio.Median)
		}
		for _, b := range all[:i] {
			p.Pairs++
			if a.claim() == "winner" && b.claim() == "winner" && a.arm != b.arm {
				p.Differ++
			}
			if flip(a, b) {
				p.Flips++
			}
		}
	}
	if len(p.Ratios) > 0 {
		p.Spread = slices.Max(p.Ratios)/slices.Min(p.Ratios) - 1
	}
	return p
}

// flip reports whether two runs contradict each other: one calls an arm faster and the other the same
// arm slower, or both claim winners, different ones, by intervals that do not meet.
func flip(a, b outcome) bool {
	x, y := a.claim(), b.claim()
	switch {
	case x == "winner" && y == "slower" || x == "slower" && y == "winner":
		return a.arm == b.arm
	case x == "winner" && y == "winner" && a.arm != b.arm:
		return !meet(a.Verdict, b.Verdict)
	}
	return false
}

func meet(a, b Verdict) bool {
	or := func(p *float64, unknown float64) float64 {
		if p == nil {
			return unknown
		}
		return *p
	}
	lo := max(or(a.Ratio.Lo, 0), or(b.Ratio.Lo, 0))
	return lo <= min(or(a.Ratio.Hi, math.Inf(1)), or(b.Ratio.Hi, math.Inf(1)))
}

// Text is the result for people.
func (r Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, %d refused to judge, flip rate %.0f%%\n", r.Runs, r.Refused, 100*r.FlipRate)
	for _, p := range r.Phases {
		fmt.Fprintf(&b, "%-8s %s: %d winner, %d tie, %d slower; %d of %d pairs of runs flip; %d pairs of winners differ as configurations\n",
			p.Phase, p.Weights, p.Claims["winner"], p.Claims["tie"], p.Claims["slower"], p.Flips, p.Pairs, p.Differ)
		if len(p.Ratios) > 0 {
			fmt.Fprintf(&b, "         ratios %.3f, spread %.1f%%\n", p.Ratios, 100*p.Spread)
		}
	}
	for _, c := range r.Classes {
		fmt.Fprintf(&b, "  %-36s a finalist in %d runs, %d distinct\n", c.Problem, c.Finalists, c.Distinct)
	}
	fmt.Fprintf(&b, "blocks kept: A/A pairs %s", r.Floor)
	for _, x := range r.Blocks {
		fmt.Fprintf(&b, ", %s %s", x.Stage, x.Kept)
	}
	b.WriteByte('\n')
	return b.String()
}

func (k Kept) String() string { return fmt.Sprintf("%d of %d", k.Kept, k.Of) }
