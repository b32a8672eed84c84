package runner

import (
	"context"
	"fmt"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
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
	for _, p := range st.Plans {
		if err := s.set(ctx, p); err != nil {
			return StepTimes{}, err
		}
	}
	if st.SetOnly {
		return StepTimes{}, nil
	}
	for i := range st.Warm + max(1, st.Repeat) {
		if i == st.Warm {
			s.seen.start()
		}
		if err := s.pass(ctx, st.Test); err != nil {
			return StepTimes{}, err
		}
	}
	s.seen.stop()
	return s.collect(st)
}

func (s *server) set(ctx context.Context, p ClassPlan) error {
	layers := layersOf(p.Class)
	if len(p.Artifacts) != len(layers) {
		return fmt.Errorf("%s: %d artifacts for %d layers", p.Class, len(p.Artifacts), len(layers))
	}
	for i, id := range p.Artifacts {
		a := s.artifacts[id]
		if a == nil {
			return fmt.Errorf("%s: artifact %.12s was not sent", p.Class, id)
		}
		if err := s.e.SetLinear(ctx, layers[i], p.Class, p.M, a); err != nil {
			return err
		}
	}
	return nil
}

// pass runs one prefill, or one token at the depth.
func (s *server) pass(ctx context.Context, t bench.Test) error {
	if t.Gen > 0 {
		t.Gen = 1
	}
	_, err := s.b.Run(ctx, t)
	return err
}

func (s *server) collect(st Step) (StepTimes, error) {
	n := float64(max(1, st.Repeat))
	var out StepTimes
	for _, p := range st.Plans {
		region := regionOf(p.Class)
		var secs []float64
		for _, l := range layersOf(p.Class) {
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

// layersOf lists the layers of a class, -1 for the head.
func layersOf(c model.Class) []int {
	if len(c.Layers) == 0 {
		return []int{-1}
	}
	return c.Layers
}

// regionOf is the region in which a class of matrices runs.
func regionOf(c model.Class) string {
	for _, r := range []struct {
		region model.Region
		roles  string
	}{{model.RegionHead, "head"}, {model.RegionDown, "down"}, {model.RegionO, "o"},
		{model.RegionGateUp, "gate"}, {model.RegionGateUp, "up"}} {
		if c.Role == r.roles || c.Role == "gate_up" && r.region == model.RegionGateUp {
			return string(r.region)
		}
	}
	return string(model.RegionQKV)
}
