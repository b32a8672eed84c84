// Package grid is the pure part of `tune compare`: from a spec and the results of its passes it
// makes the report, or says why there is none to make. It starts nothing and reads no clock.
package grid

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

// Schema is the version of specs, reports and expectations.
const Schema = 1

// DefaultPasses is the number of passes of a spec that does not say.
const DefaultPasses = 5

// DefaultTimeout bounds a run of an arm that does not say, in seconds.
const DefaultTimeout = 600

// maxPasses, maxArms and maxTimeout, in seconds, bound a spec.
const (
	maxTimeout = 1e6
	maxPasses  = 1000
	maxArms    = 100
)

// ErrSpec is wrapped by every refusal of a spec.
var ErrSpec = errors.New("compare spec refused")

// Spec says what to compare.
type Spec struct {
	Schema  int      `json:"schema"`
	Name    string   `json:"name"`
	Control string   `json:"control"` // name of the control arm, today's default
	Passes  int      `json:"passes,omitempty"`
	Metrics []Metric `json:"metrics"`
	Arms    []Arm    `json:"arms"`
	// Margin is the relative gain a winner must exceed, 0.01 if not given.
	Margin *float64 `json:"margin,omitempty"`
	// Warmup is the number of unrecorded passes before the first, 1 if not given.
	Warmup  *int    `json:"warmup,omitempty"`
	Timeout float64 `json:"timeout_s,omitempty"` // of a run, for arms that do not say; 600 if 0
	// Work is the path of the units of work that a command did: none done is no sample. Engine arms
	// show theirs without it.
	Work string `json:"work,omitempty"`
	// Nonce is the path at which a command prints what it found in its environment under NonceEnv: an
	// output that was kept from another run does not. Engine arms show none, they are known to work.
	Nonce string `json:"nonce,omitempty"`
	// Binary is the engine that arms with engine settings run, and Bench the flags of its bench
	// command that they share.
	Binary string            `json:"engine_binary,omitempty"`
	Bench  map[string]string `json:"bench,omitempty"`
}

// Metric is a metric and where a command's JSON holds it.
type Metric struct {
	measure.Metric
	Path string `json:"path,omitempty"` // dotted: "results.0.median_ts"; the name if empty
}

// NonceEnv is the variable that holds what is new in every run.
const NonceEnv = "TILEWRIGHT_NONCE"

// Tree as the path of a memory metric is the greatest sum of RssAnon over the process tree of a run,
// which is measured from outside: a process that reads its own memory misses its workers'.
const Tree = "(tree)"

// Arm is one thing to run: settings of our engine, or any command that prints one JSON document.
type Arm struct {
	Name    string            `json:"name"`
	Engine  map[string]string `json:"engine,omitempty"`  // flag of engine bench without dashes -> value
	Command []string          `json:"command,omitempty"` // argv
	Env     map[string]string `json:"env,omitempty"`
	Timeout float64           `json:"timeout_s,omitempty"`
	// Evidence lists paths into the JSON that show the knob: artifact digests, bytes, counters.
	Evidence []string `json:"evidence,omitempty"`
	// Expect lists paths whose values must be these texts: a run that shows another did not run the arm.
	Expect map[string]string `json:"expect,omitempty"`
}

// ParseSpec reads a spec; unknown fields are errors, since a mistyped knob is one that is not
// connected.
func ParseSpec(r io.Reader) (*Spec, error) {
	d := json.NewDecoder(io.LimitReader(r, 1<<20))
	d.DisallowUnknownFields()
	var s Spec
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	if err := ended(d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	if s.Passes == 0 {
		s.Passes = DefaultPasses
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return &s, nil
}

func (s *Spec) validate() error {
	switch {
	case s.Schema != Schema:
		return fmt.Errorf("schema %d, this build reads %d", s.Schema, Schema)
	case s.Passes < stat.MinPairs || s.Passes > maxPasses:
		return fmt.Errorf("%d passes; %d to %d are possible, fewer are not a result", s.Passes, stat.MinPairs, maxPasses)
	case len(s.Arms) < 2 || len(s.Arms) > maxArms:
		return fmt.Errorf("%d arms; a comparison has 2 to %d", len(s.Arms), maxArms)
	case len(s.Metrics) == 0:
		return errors.New("no metrics")
	case s.Margin != nil && !(*s.Margin >= 0 && *s.Margin < 1):
		return fmt.Errorf("margin %g; 0 to 1, 0.01 is 1%%", *s.Margin)
	case s.Warmup != nil && (*s.Warmup < 0 || *s.Warmup > maxPasses):
		return fmt.Errorf("%d warm-up passes", *s.Warmup)
	case !(s.Timeout >= 0 && s.Timeout <= maxTimeout):
		return fmt.Errorf("timeout of %g s", s.Timeout)
	case s.control() < 0:
		return fmt.Errorf("control %q is not among the arms", s.Control)
	}
	names := map[string]bool{AA: true}
	for _, a := range s.Arms {
		switch {
		case a.Name == "" || names[a.Name]:
			return fmt.Errorf("empty, reserved or duplicate arm %q", a.Name)
		case (len(a.Engine) > 0) == (len(a.Command) > 0) && a.Name != s.Control:
			return fmt.Errorf("arm %q: want either engine settings or a command", a.Name)
		case len(a.Engine) > 0 && len(a.Command) > 0:
			return fmt.Errorf("arm %q: both engine settings and a command", a.Name)
		case len(a.Command) > 0 && a.Command[0] == "":
			return fmt.Errorf("arm %q: empty command", a.Name)
		case !(a.Timeout >= 0 && a.Timeout <= maxTimeout):
			return fmt.Errorf("arm %q: timeout of %g s", a.Name, a.Timeout)
		}
		names[a.Name] = true
	}
	seen := map[string]bool{}
	for _, m := range s.Metrics {
		if err := m.Validate(); err != nil {
			return err
		}
		if m.Path == Tree && !m.Memory {
			return fmt.Errorf("metric %q: path %s is for memory: true", m.Name, Tree)
		}
		if seen[m.Name] {
			return fmt.Errorf("duplicate metric %q", m.Name)
		}
		seen[m.Name] = true
	}
	return nil
}

func (s *Spec) control() int {
	return slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == s.Control })
}

// Warm is the number of warm-up passes.
func (s *Spec) Warm() int {
	if s.Warmup != nil {
		return *s.Warmup
	}
	return 1
}

// Arm returns the arm that runs under a name of Order: the twin is the control.
func (s *Spec) Arm(name string) Arm {
	if name == AA {
		name = s.Control
	}
	return s.Arms[slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == name })]
}

// Limit is the longest that a run of an arm may take, in seconds.
func (s *Spec) Limit(a Arm) float64 {
	return cmp.Or(a.Timeout, s.Timeout, DefaultTimeout)
}

func (s *Spec) margin() float64 {
	if s.Margin != nil {
		return *s.Margin
	}
	return measure.Margin
}

// AA is the name under which the control runs a second time in every pass: the pair sets the noise
// floor.
const AA = "control (A/A)"

// Order lists the names of the arms of pass p (from 1) in the order to run them: the control and its
// A/A twin in every pass, rotated so that each arm takes each place.
func (s *Spec) Order(p int) []string {
	arms := s.armNames()
	out := make([]string, len(arms))
	for i, a := range stat.Rotate(len(arms), p) {
		out[i] = arms[a]
	}
	return out
}

// armNames lists the control, the other arms as declared, and the A/A twin in the middle, so that
// rotation does not keep it beside the control.
func (s *Spec) armNames() []string {
	out := []string{s.Control}
	for _, a := range s.Arms {
		if a.Name != s.Control {
			out = append(out, a.Name)
		}
	}
	return slices.Insert(out, (len(out)+1)/2, AA)
}
