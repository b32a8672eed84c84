package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/tuner/preflight"
)

// times is the engine's observer: seconds by region and layer since it was cleared.
type times struct {
	on  bool
	sum map[regionLayer]float64
}

type regionLayer struct {
	op    string
	layer int
}

// Region adds an event.
func (t *times) Region(e engine.Event) {
	if t.on {
		t.sum[regionLayer{e.Op, e.Layer}] += float64(e.End-e.Start) / 1e9
	}
}

func (t *times) start() { t.on, t.sum = true, map[regionLayer]float64{} }
func (t *times) stop()  { t.on = false }

// step sets the kernels of each layer and times the passes.
func (s *server) step(ctx context.Context, st Step) (StepTimes, error) {
	for id, a := range st.Artifacts {
		s.artifacts[id] = &a
	}
	refused := map[string]string{}
	for _, p := range st.Plans {
		if err := s.set(ctx, p, refused); err != nil {
			return StepTimes{}, err
		}
	}
	if st.SetOnly || len(refused) > 0 {
		return StepTimes{Refused: refused}, nil
	}
	var pass float64
	var threads map[int]preflight.Thread
	var begun time.Time
	for i := range st.Warm + max(1, st.Repeat) {
		if i == st.Warm {
			threads, begun = s.deps.Threads(), time.Now()
			s.seen.start()
			pass = 0
		}
		sec, err := s.pass(ctx, st.Test)
		if err != nil {
			return StepTimes{}, err
		}
		pass += sec
	}
	s.seen.stop()
	block := time.Since(begun)
	out, err := s.collect(st)
	out.Wait = preflight.Waited(threads, s.deps.Threads(), block)
	out.Pass = pass / float64(max(1, st.Repeat))
	return out, err
}

// set makes the artifacts of a plan serve their layers; what the engine will not run is refused.
func (s *server) set(ctx context.Context, p ClassPlan, refused map[string]string) error {
	layers := LayersOf(p.Class)
	if len(p.Artifacts) != len(layers) {
		return fmt.Errorf("%s: %d artifacts for %d layers", p.Class, len(p.Artifacts), len(layers))
	}
	for i, id := range p.Artifacts {
		a := s.artifacts[id]
		if a == nil {
			return fmt.Errorf("%s: artifact %.12s was not sent", p.Class, id)
		}
		if err := s.e.SetLinear(ctx, layers[i], p.Class, p.M, a); err != nil {
			refused[id] = err.Error()
		}
	}
	return nil
}

// pass runs one prefill, or one token at the depth, and returns its seconds.
func (s *server) pass(ctx context.Context, t bench.Test) (float64, error) {
	if t.Gen > 0 {
		t.Gen = 1
	}
	return s.b.Run(ctx, t)
}

func (s *server) collect(st Step) (StepTimes, error) {
	n := float64(max(1, st.Repeat))
	var out StepTimes
	for _, p := range st.Plans {
		region := string(p.Class.Region())
		var secs []float64
		for _, l := range LayersOf(p.Class) {
			sec, ok := s.seen.sum[regionLayer{region, l}]
			if !ok {
				return out, fmt.Errorf("%s: region %s of layer %d did not run", p.Class, region, l)
			}
			secs = append(secs, sec/n)
		}
		out.Layers = append(out.Layers, secs)
	}
	return out, nil
}

// LayersOf lists the layers of a class, -1 for the head.
func LayersOf(c model.Class) []int {
	if len(c.Layers) == 0 {
		return []int{-1}
	}
	return c.Layers
}
