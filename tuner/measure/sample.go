package measure

import (
	"errors"
	"fmt"
	"math"
)

// Arm is one of the things compared.
type Arm struct {
	Name string `json:"name"`
	// Evidence is what shows that its knobs act: artifact digests, layout digests, byte counts,
	// counters, by name. Arms of equal evidence ran the same thing.
	Evidence map[string]string `json:"evidence,omitempty"`
	// Serve, if set, names the arm whose configuration runs under this name; Repeat above 1 runs
	// its work that many times. Only planted arms have them.
	Serve  string `json:"serve,omitempty"`
	Repeat int    `json:"repeat,omitempty"`
}

// Sample is one measured value of one arm in one block (pass).
type Sample struct {
	Arm     string  `json:"arm"`
	Block   int     `json:"block"`
	Turn    int     `json:"turn,omitempty"` // of the block: arms that share one ran beside each other
	Metric  string  `json:"metric"`
	Value   float64 `json:"value"`
	Work    int64   `json:"work"` // units of work done: tokens, calls, bytes held; none is impossible
	Receipt Receipt `json:"receipt"`
}

// ErrImpossible is wrapped by every refusal of a sample that cannot be true.
var ErrImpossible = errors.New("impossible sample")

// The bounds of rates, times and sizes, whatever their unit: no machine is near them.
const (
	leastValue = 1e-18
	mostValue  = 1e24
)

// check refuses what no working measurement can give.
func (s Sample) check(m Metric) error {
	switch {
	case math.IsNaN(s.Value) || math.IsInf(s.Value, 0):
		return fmt.Errorf("%w: %s of %v", ErrImpossible, s.Metric, s.Value)
	case s.Value <= 0:
		return fmt.Errorf("%w: %s of %g", ErrImpossible, s.Metric, s.Value)
	case s.Value < leastValue || s.Value > mostValue:
		return fmt.Errorf("%w: %s of %g is beyond what a computer does", ErrImpossible, s.Metric, s.Value)
	case s.Work <= 0:
		return fmt.Errorf("%w: %d units of work were done", ErrImpossible, s.Work)
	}
	if !m.Memory {
		return nil
	}
	inTree := false
	for _, p := range s.Receipt.Tree {
		inTree = inTree || p.PID == s.Receipt.PID && p.Start == s.Receipt.Start
	}
	if !inTree {
		return fmt.Errorf("%w: memory was not read from the tree of the process that did the work (pid %d)", ErrReceipt, s.Receipt.PID)
	}
	if sum := s.Receipt.TreeRssAnon(); float64(sum) != s.Value {
		return fmt.Errorf("%w: %s is %.0f, the process tree holds %d", ErrReceipt, s.Metric, s.Value, sum)
	}
	return nil
}

// Failure is a run that gave no sample. It is reported, never dropped.
type Failure struct {
	Arm    string `json:"arm"`
	Block  int    `json:"block"`
	Class  string `json:"class"` // exit, signal, timeout, numerics, ...
	Exit   int    `json:"exit,omitempty"`
	Signal string `json:"signal,omitempty"`
	Stderr string `json:"stderr,omitempty"` // its first lines
}

func (f Failure) String() string {
	out := fmt.Sprintf("%s, pass %d: %s", f.Arm, f.Block, f.Class)
	switch {
	case f.Signal != "":
		out += " " + f.Signal
	case f.Class == "exit":
		out += fmt.Sprintf(" status %d", f.Exit)
	}
	if f.Stderr != "" {
		out += ": " + f.Stderr
	}
	return out
}

// Rejection is a sample that was refused, and why.
type Rejection struct {
	Sample Sample `json:"sample"`
	Why    string `json:"why"`
}
