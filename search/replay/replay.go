// Package replay records what a search measured and plays it back: strategies are then compared on
// the noise of a real machine without the machine.
package replay

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

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

// Open reads a recording from a gzipped file.
func Open(file string) (*Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecording, file, err)
	}
	r, err := Decode(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
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
	seen := map[int]bool{}
	for _, a := range order {
		if seen[a] { // the control may come more than once
			continue
		}
		seen[a] = true
		s := Sample{Block: r.block, Control: a == 0}
		if a > 0 {
			s.Config = arms[a]
		}
		switch {
		case b.Failures[a] != "":
			s.Failure = b.Failures[a]
		case a < len(b.Costs) && b.Costs[a] > 0 && !math.IsInf(b.Costs[a], 0):
			s.Cost = digits(b.Costs[a])
		default:
			continue
		}
		r.Samples = append(r.Samples, s)
	}
	r.block++
	return b, nil
}

// digits rounds to the five digits that a timing can hold, which keeps recordings small.
func digits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	if err != nil {
		return x
	}
	return y
}
