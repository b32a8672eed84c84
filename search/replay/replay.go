// Package replay records what a search measured and plays it back: strategies are then compared on
// the noise of a real machine without the machine.
package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// Schema is the version that this build writes; it reads 1 to Schema.
const Schema = 1

// NotRecorded is the failure of a configuration that a recording does not hold.
const NotRecorded = "not recorded"

// ErrRecording is wrapped by every refusal of a recording.
var ErrRecording = errors.New("recording refused")

// Recording is a recorded run. Control need not be a member of Space.
type Recording struct {
	Schema  int           `json:"schema"`
	Space   kernel.Space  `json:"space"`
	Control kernel.Config `json:"control"`
	Samples []Sample      `json:"samples"`
}

// Sample is one cost of one configuration in one block, or a failure, or (without a configuration)
// the mark of a disturbed block.
type Sample struct {
	Block     int           `json:"block"`
	Config    kernel.Config `json:"config,omitempty"`
	Control   bool          `json:"control,omitempty"` // of the control, in place of a configuration
	Cost      float64       `json:"cost,omitempty"`    // time per unit of work, lower is better
	Failure   string        `json:"failure,omitempty"`
	Disturbed string        `json:"disturbed,omitempty"`
}

// maxBytes bounds a recording that Decode reads.
const maxBytes = 256 << 20

// Decode reads a recording and checks every part of it.
func Decode(r io.Reader) (*Recording, error) {
	d := json.NewDecoder(io.LimitReader(r, maxBytes))
	d.DisallowUnknownFields()
	var rec Recording
	if err := d.Decode(&rec); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecording, err)
	}
	if rec.Schema < 1 || rec.Schema > Schema {
		return nil, fmt.Errorf("%w: schema %d, this build reads 1 to %d", ErrRecording, rec.Schema, Schema)
	}
	if err := rec.Space.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecording, err)
	}
	for i, s := range rec.Samples {
		if err := rec.check(s); err != nil {
			return nil, fmt.Errorf("%w: sample %d: %w", ErrRecording, i, err)
		}
	}
	return &rec, nil
}

func (r *Recording) check(s Sample) error {
	switch {
	case s.Block < 0:
		return fmt.Errorf("block %d", s.Block)
	case s.Disturbed != "" && (s.Config != nil || s.Control || s.Cost != 0 || s.Failure != ""):
		return errors.New("the mark of a disturbed block carries a value")
	case s.Disturbed != "":
		return nil
	case s.Control == (s.Config != nil):
		return errors.New("want either a configuration or the control")
	case s.Failure == "" && !(s.Cost > 0 && !math.IsInf(s.Cost, 0)):
		return fmt.Errorf("cost %g, must be positive", s.Cost)
	case s.Failure != "" && s.Cost != 0:
		return errors.New("a failure has a cost")
	}
	if s.Control {
		return nil
	}
	return r.Space.Check(s.Config)
}

// Encode writes a recording of the current schema.
func (r *Recording) Encode(w io.Writer) error {
	r.Schema = Schema
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Recorder is a Source that records what another one measures.
type Recorder struct {
	search.Source
	Recording
	block int
}

// NewRecorder records src; space and control are those of the search.
func NewRecorder(src search.Source, space kernel.Space, control kernel.Config) *Recorder {
	return &Recorder{Source: src, Recording: Recording{Schema: Schema, Space: space, Control: control}}
}

// Measure measures a block and records it.
func (r *Recorder) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	b, err := r.Source.Measure(arms, order)
	if err != nil {
		return b, err
	}
	if b.Disturbed != "" {
		r.Samples = append(r.Samples, Sample{Block: r.block, Disturbed: b.Disturbed})
	}
	for _, a := range order {
		s := Sample{Block: r.block, Control: a == 0}
		if a > 0 {
			s.Config = arms[a]
		}
		switch {
		case b.Failures[a] != "":
			s.Failure = b.Failures[a]
		case a < len(b.Costs) && b.Costs[a] > 0 && !math.IsInf(b.Costs[a], 0):
			s.Cost = b.Costs[a]
		default:
			continue
		}
		r.Samples = append(r.Samples, s)
	}
	r.block++
	return b, nil
}

// Source plays a recording back, deterministic by seed: each block draws, for every arm, one of the
// blocks that it was recorded in, and gives its cost there relative to the control there, so that
// paired noise is the recorded noise. It may be asked for more blocks than were recorded.
type Source struct {
	Budget int // samples left

	rng     *rand.Rand
	control []float64            // costs, in block order
	ratios  map[string][]float64 // by configuration: ln(cost / control in the same block)
	failed  map[string]string
}

// NewSource plays rec back under a budget of samples. Disturbed blocks are left out.
func NewSource(rec *Recording, budget int, seed uint64) (*Source, error) {
	s := &Source{Budget: budget, rng: rand.New(rand.NewPCG(seed, 0x4e91)), ratios: map[string][]float64{}, failed: map[string]string{}}
	void, control := map[int]bool{}, map[int]float64{}
	for _, x := range rec.Samples {
		switch {
		case x.Disturbed != "":
			void[x.Block] = true
		case x.Control && x.Failure == "":
			control[x.Block] = x.Cost
		}
	}
	for _, x := range rec.Samples {
		key := x.Config.String()
		switch {
		case x.Disturbed != "":
		case x.Control:
			if x.Failure == "" && !void[x.Block] {
				s.control = append(s.control, x.Cost)
			}
		case x.Failure != "":
			s.failed[key] = x.Failure
		case !void[x.Block] && control[x.Block] > 0:
			s.ratios[key] = append(s.ratios[key], math.Log(x.Cost/control[x.Block]))
		}
	}
	if len(s.control) == 0 {
		return nil, fmt.Errorf("%w: no undisturbed block holds the control", ErrRecording)
	}
	return s, nil
}

// Score is the mean recorded log-speedup of a configuration over the control, false if it has none.
func (s *Source) Score(c kernel.Config) (float64, bool) {
	rs := s.ratios[c.String()]
	if len(rs) == 0 || s.failed[c.String()] != "" {
		return 0, false
	}
	var sum float64
	for _, r := range rs {
		sum -= r
	}
	return sum / float64(len(rs)), true
}

// Measure plays one block.
func (s *Source) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	if s.Budget < len(order) {
		return search.Block{}, search.ErrBudget
	}
	s.Budget -= len(order)
	b := search.Block{Costs: make([]float64, len(arms)), Failures: map[int]string{}}
	base := s.control[s.rng.IntN(len(s.control))]
	for i := range b.Costs {
		b.Costs[i] = math.NaN()
	}
	for _, a := range order {
		if a == 0 {
			b.Costs[0] = base
			continue
		}
		key := arms[a].String()
		rs := s.ratios[key]
		switch {
		case s.failed[key] != "":
			b.Failures[a] = s.failed[key]
		case len(rs) == 0:
			b.Failures[a] = NotRecorded
		default:
			b.Costs[a] = base * math.Exp(rs[s.rng.IntN(len(rs))])
		}
	}
	return b, nil
}
