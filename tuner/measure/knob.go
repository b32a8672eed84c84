package measure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Finding is an arm that does not show what its name promises.
type Finding struct {
	Arm  string `json:"arm"`
	Kind string `json:"kind"` // inert or twin
	Of   string `json:"of"`   // the arm that ran the same
	Why  string `json:"why"`
}

// The kinds of finding.
const (
	Inert = "inert" // runs what the control runs, or shows no evidence: the knob is not connected
	Twin  = "twin"  // runs what another arm runs: two names, one thing
)

// fingerprint is a canonical form of an arm's evidence, "" for none.
func (a Arm) fingerprint() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(a.Evidence)) {
		fmt.Fprintf(&b, "%q=%q\n", k, a.Evidence[k])
	}
	return b.String()
}

// Findings lists the arms whose knobs do not act, by what ran, in declared order.
func (j *Judge) Findings() []Finding {
	var out []Finding
	first := map[string]string{j.arms[0].fingerprint(): j.Control()}
	for _, a := range j.arms[1:] {
		fp := a.fingerprint()
		of, known := first[fp]
		switch {
		case fp == "" && j.o.Unproven:
		case fp == "":
			out = append(out, Finding{a.Name, Inert, j.Control(), "no evidence that its knobs act"})
		case known && of == j.Control():
			out = append(out, Finding{a.Name, Inert, of, WhyInert})
		case known:
			out = append(out, Finding{a.Name, Twin, of, WhyTwin})
		default:
			first[fp] = a.Name
		}
	}
	return out
}

func (j *Judge) inert(arm string) bool {
	return slices.ContainsFunc(j.Findings(), func(f Finding) bool { return f.Arm == arm && f.Kind == Inert })
}
