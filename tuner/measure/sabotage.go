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

// Check reports which planted arms the judge missed in a metric that counts time: the inert one must
// be found inert, the twin a twin (or inert, if its original is), the slow one slower, and none may
// win.
func (p Planted) Check(j *Judge, metric string, f Floor) error {
	var missed []error
	miss := func(format string, v ...any) {
		missed = append(missed, fmt.Errorf("%w: %s", ErrVoid, fmt.Sprintf(format, v...)))
	}
	kind := map[string]string{}
	for _, fi := range j.Findings() {
		kind[fi.Arm] = fi.Kind
	}
	if kind[p.Inert] != Inert {
		miss("the inert knob %s was not reported", p.Inert)
	}
	if kind[p.Twin] == "" {
		miss("%s, twin of %s, was not reported", p.Twin, p.TwinOf)
	}
	for _, a := range []string{p.Inert, p.Slow} {
		if v := j.Verdict(metric, a, f, Margin); v.Decision == Winner {
			miss("%s was declared a winner at %.3f", a, v.Ratio.Median)
		}
	}
	if twin := j.Gains(metric, p.Twin, p.TwinOf); decisive(twin, f) {
		miss("%s and its twin %s were told apart", p.Twin, p.TwinOf)
	}
	if v := j.Verdict(metric, p.Slow, f, Margin); !(v.Ratio.Hi < 1) {
		miss("%s does its work twice and was not found slower (ratio %.3f, %d pairs)", p.Slow, v.Ratio.Median, v.Pairs)
	}
	return errors.Join(missed...)
}

// decisive reports whether the gains would decide either way.
func decisive(gains []float64, f Floor) bool {
	back := make([]float64, len(gains))
	for i, g := range gains {
		back[i] = -g
	}
	r := stat.Rule{Margin: Margin, Floor: f.Noise}
	_, up := r.Decide(gains)
	_, down := r.Decide(back)
	return up == stat.Clear || down == stat.Clear
}
