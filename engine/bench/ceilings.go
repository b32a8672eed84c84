package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/kernel"
)

// Ceilings are what the machine can do at best, on the threads under test. Zero: not known.
type Ceilings struct {
	ReadGBs    float64 `json:"read_gbs"`    // streaming reads of the packed weights
	Int8GMACs  float64 `json:"int8_gmacs"`  // register-resident multiply-accumulates
	Int16GMACs float64 `json:"int16_gmacs"` //
	FP32GMACs  float64 `json:"fp32_gmacs"`  //
}

// Peak is the peak of an arithmetic.
func (c Ceilings) Peak(a kernel.Arith) float64 {
	switch a {
	case kernel.A8:
		return c.Int8GMACs
	case kernel.A16:
		return c.Int16GMACs
	}
	return c.FP32GMACs
}

// Prober measures ceilings between the repetitions of a workload.
type Prober struct {
	e       *engine.Engine
	streams []*kernel.Artifact
	peaks   map[kernel.Arith]*kernel.Artifact
}

// NewProber emits the fixed set of streaming-read kernels (every configuration of OpStream) and one
// peak kernel for each arithmetic.
func NewProber(ctx context.Context, e *engine.Engine, s *kernel.Suite) (*Prober, error) {
	p := &Prober{e: e, peaks: map[kernel.Arith]*kernel.Artifact{}}
	read := kernel.Problem{Op: kernel.OpStream}
	def, err := s.Default(ctx, read)
	if err != nil {
		return nil, fmt.Errorf("read ceiling: %w", err)
	}
	space, err := s.Backends[def.Backend].Space(ctx, s.Host, read)
	if err != nil {
		return nil, err
	}
	for _, c := range configs(space) {
		def.Config = c
		a, err := s.Emit(ctx, def)
		if err != nil {
			return nil, fmt.Errorf("read ceiling: %w", err)
		}
		p.streams = append(p.streams, a)
	}
	for _, arith := range []kernel.Arith{kernel.A8, kernel.A16, kernel.F32} {
		c, err := s.Default(ctx, kernel.Problem{Op: kernel.OpPeak, Arith: arith})
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.peaks[arith], err = s.Emit(ctx, c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// configs lists every member of a small space.
func configs(s kernel.Space) []kernel.Config {
	out := []kernel.Config{{}}
	for _, p := range s.Params {
		var next []kernel.Config
		for _, c := range out {
			for _, v := range p.Values {
				d := c.Clone()
				d[p.Name] = v
				next = append(next, d)
			}
		}
		out = next
	}
	var ok []kernel.Config
	for _, c := range out {
		if s.Check(c) == nil {
			ok = append(ok, c)
		}
	}
	return ok
}

// peakTime is how long one reading of a peak takes.
const peakTime = 20 * time.Millisecond

// Measure takes one reading of the read ceiling (the best of the set) on decode threads, and of the
// peaks on prefill threads.
func (p *Prober) Measure(decode, prefill int) (Ceilings, error) {
	var c Ceilings
	for _, a := range p.streams {
		bps, err := p.e.ProbeRead(a, decode)
		if err != nil {
			return c, err
		}
		c.ReadGBs = max(c.ReadGBs, bps/1e9)
	}
	for arith, dst := range map[kernel.Arith]*float64{kernel.A8: &c.Int8GMACs, kernel.A16: &c.Int16GMACs, kernel.F32: &c.FP32GMACs} {
		a := p.peaks[arith]
		if a == nil {
			continue
		}
		mps, err := p.e.ProbePeak(a, prefill, peakTime)
		if err != nil {
			return c, err
		}
		*dst = mps / 1e9
	}
	return c, nil
}
