package measure

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
)

// ErrVoid is wrapped when a judge missed a planted arm: the run proves nothing.
var ErrVoid = errors.New("run void: the judge missed planted sabotage")

// Planted names the arms that Plant added.
type Planted struct {
	Inert, Twin, Slow string
	TwinOf            string
}

// Plant adds three arms whose truth is known to a comparison, whose first arm is the control: an
// inert knob (serves the control under another name), a twin of the second arm, and the control
// slowed by doing its work twice. The caller runs them like any other, as Serve and Repeat say.
func Plant(arms []Arm) ([]Arm, Planted, error) {
	if len(arms) < 2 {
		return nil, Planted{}, fmt.Errorf("measure: sabotage needs the control and an arm, got %d", len(arms))
	}
	control, twin := arms[0], arms[1]
	p := Planted{"planted/inert", "planted/twin", "planted/slow", twin.Name}
	slow := maps.Clone(control.Evidence)
	if slow == nil {
		slow = map[string]string{}
	}
	slow["repeat"] = "2"
	out := append(slices.Clone(arms),
		Arm{Name: p.Inert, Evidence: maps.Clone(control.Evidence), Serve: control.Name},
		Arm{Name: p.Twin, Evidence: maps.Clone(twin.Evidence), Serve: twin.Name},
		Arm{Name: p.Slow, Evidence: slow, Serve: control.Name, Repeat: 2})
	return out, p, nil
}

// Sabotage says which planted arms a judge caught and which it missed.
type Sabotage struct {
	Planted []string `json:"planted"`
	Caught  []string `json:"caught"`
	Missed  []Missed `json:"missed"`
	Why     string   `json:"why,omitempty"` // why nothing was planted or nothing can be said
}

// Missed is a planted arm that the judge did not see through.
type Missed struct {
	Arm string `json:"arm"`
	Why string `json:"why"`
}

// Err is nil for a judge that missed nothing, else it wraps ErrVoid.
func (s Sabotage) Err() error {
	var all []error
	for _, m := range s.Missed {
		all = append(all, fmt.Errorf("%w: %s %s", ErrVoid, m.Arm, m.Why))
	}
	return errors.Join(all...)
}

// names lists the planted arms.
func (p Planted) names() []string { return []string{p.Inert, p.Twin, p.Slow} }

// Check puts the judge to the test in a metric that counts time: the inert arm must be found inert,
// the twin a twin (or inert, if its original is), neither told apart from what it is by the turns that
// they had beside it, and the slow one found slower.
func (p Planted) Check(j *Judge, metric string, f Floor) Sabotage {
	s := Sabotage{Planted: p.names(), Caught: []string{}, Missed: []Missed{}}
	kind := map[string]string{}
	for _, fi := range j.Findings() {
		kind[fi.Arm] = fi.Kind
	}
	slow := stat.CI(j.Gains(metric, p.Slow, j.Control()), 0.95).Exp()
	why := map[string]string{}
	switch {
	case kind[p.Inert] != Inert:
		why[p.Inert] = "is the default under another name and was not reported inert"
	case toldApart(j.Beside(metric, p.Inert, j.Control()), f):
		why[p.Inert] = "is the default under another name and was told apart from it"
	}
	switch {
	case kind[p.Twin] == "":
		why[p.Twin] = fmt.Sprintf("runs what %s runs and was not reported", p.TwinOf)
	case toldApart(j.Beside(metric, p.Twin, p.TwinOf), f):
		why[p.Twin] = fmt.Sprintf("runs what %s runs and was told apart from it", p.TwinOf)
	}
	if !(slow.Hi < 1) {
		why[p.Slow] = fmt.Sprintf("does its work twice and was not found slower (ratio %.3f, %d pairs)", slow.Center, slow.N)
	}
	for _, a := range s.Planted {
		if why[a] == "" {
			s.Caught = append(s.Caught, a)
		} else {
			s.Missed = append(s.Missed, Missed{a, why[a]})
		}
	}
	return s
}

// apartConf is the confidence at which two arms that are one are told apart. Two are asked, once, either
// way: by chance at most one run in a hundred is void for them (Bonferroni).
const apartConf = 1 - 0.01/2

// toldApart reports whether the gains would decide either way.
func toldApart(gains []float64, f Floor) bool {
	back := make([]float64, len(gains))
	for i, g := range gains {
		back[i] = -g
	}
	r := stat.Rule{Margin: Margin, Floor: f.Noise, Conf: apartConf}
	_, up := r.Decide(gains)
	_, down := r.Decide(back)
	return up == stat.Clear || down == stat.Clear
}
