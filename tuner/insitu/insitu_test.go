package insitu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Stepper whose layers take a known time times the configuration's factor times noise
// that drifts from step to step.
type bench struct {
	rng     *rand.Rand
	drift   float64
	steps   int
	visited map[string]map[int]map[int64]bool // class, layer, value of "x"
	crash   int64                             // value of "x" that fails
	failAt  int
}

func (b *bench) Step(_ context.Context, as []Assignment) ([]Timing, string, error) {
	b.steps++
	if b.failAt > 0 && b.steps >= b.failAt {
		return nil, "", errors.New("runner died")
	}
	b.drift += 0.05 * b.rng.NormFloat64()
	var out []Timing
	for _, a := range as {
		t := Timing{Class: a.Class, Failed: map[int]string{}}
		for i, c := range a.Config {
			x := c["x"]
			if b.visited[a.Class] == nil {
				b.visited[a.Class] = map[int]map[int64]bool{}
			}
			if b.visited[a.Class][i] == nil {
				b.visited[a.Class][i] = map[int64]bool{}
			}
			b.visited[a.Class][i][x] = true
			if x == b.crash {
				t.Failed[i] = "SIGILL"
			}
			d := float64(x - 5)
			cost := (1 + 0.02*d*d) * (1 + 0.01*b.rng.NormFloat64()) * (1 + b.drift*b.drift)
			t.Seconds = append(t.Seconds, cost*float64(1+i%3)/1000)
		}
		out = append(out, t)
	}
	return out, "", nil
}

func space(n int64) kernel.Space {
	p := kernel.Param{Name: "x", Doc: "a parameter", Default: 0}
	for v := range n {
		p.Values = append(p.Values, v)
	}
	return kernel.Space{Version: "1", Params: []kernel.Param{p}}
}

func layers(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestSearchesShareSteps(t *testing.T) {
	b := &bench{rng: rand.New(rand.NewPCG(1, 2)), visited: map[string]map[int]map[int64]bool{}, crash: 7}
	var searches []Search
	found := make([]kernel.Config, 3)
	for i, c := range []Class{{"gate_up", layers(28)}, {"down", layers(12)}, {"head", []int{0}}} {
		searches = append(searches, Search{Class: c, Run: func(src search.Source) error {
			s := space(9)
			var arms []kernel.Config
			for _, v := range s.Params[0].Values {
				arms = append(arms, kernel.Config{"x": v})
			}
			rs, err := search.Compete(arms, src, search.RaceOptions{MaxBlocks: 40, Seed: uint64(i)})
			best := search.Result{Config: arms[0]}
			for _, r := range rs {
				if r.Failure == "" && r.Score > best.Score {
					best = r
				}
				if (r.Failure != "") != (r.Config["x"] == 7) {
					err = fmt.Errorf("x=%d: failure %q", r.Config["x"], r.Failure)
				}
			}
			found[i] = best.Config
			return err
		}})
	}
	if err := Run(t.Context(), b, searches, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for i, c := range found {
		if c["x"] != 5 {
			t.Errorf("search %d chose x=%d, the best is 5", i, c["x"])
		}
	}
	for layer, seen := range b.visited["down"] {
		if len(seen) < 5 {
			t.Errorf("layer %d of down carried only %d candidates: the assignment does not rotate", layer, len(seen))
		}
	}
}

// A square is a square whether or not the arms divide the layers: every arm visits every layer as often.
func TestEveryArmVisitsEveryLayer(t *testing.T) {
	for _, c := range [][2]int{{4, 2}, {4, 4}, {28, 7}, {5, 3}, {3, 5}, {1, 4}} {
		s := &source{class: Class{"c", layers(c[0])}}
		r := request{order: layers(c[1])}
		for a := range c[1] {
			r.arms = append(r.arms, kernel.Config{"x": int64(a)})
		}
		visits := map[[2]int]int{}
		for range 3 * c[0] * c[1] {
			s.assign(r)
			for layer, arm := range s.last {
				visits[[2]int{layer, arm}]++
			}
		}
		for layer := range c[0] {
			for arm := range c[1] {
				if n := visits[[2]int{layer, arm}]; n != 3*c[0] {
					t.Errorf("%d layers, %d arms: arm %d ran %d times in layer %d, want %d", c[0], c[1], arm, n, layer, 3*c[0])
				}
			}
		}
	}
}

// What a layer costs more than the others is taken out, by the steps that count: a disturbed one says
// nothing of it.
func TestLayerLevels(t *testing.T) {
	s := &source{class: Class{"c", layers(2)}}
	step := func(disturbed string, seconds ...float64) []float64 { return s.centre(seconds, 2, disturbed) }
	step("", 1, 3)
	step("stolen", 50, 1)
	step("", 1, 3)
	if got := step("", 1, 3); math.Abs(got[0]-got[1]) > 1e-12 {
		t.Errorf("layers of one arm differ by %v, after their levels", got)
	}
}

func TestBudgetAndDeathEndAllSearches(t *testing.T) {
	endless := func(src search.Source) error {
		for {
			if _, err := src.Measure([]kernel.Config{{"x": 0}, {"x": 1}}, []int{0, 1}); err != nil {
				return err
			}
		}
	}
	searches := []Search{{Class{"a", layers(4)}, endless}, {Class{"b", layers(1)}, endless}}
	left := 10
	b := &bench{rng: rand.New(rand.NewPCG(1, 2)), visited: map[string]map[int]map[int64]bool{}, crash: -1}
	err := Run(t.Context(), b, searches, func() error {
		if left--; left < 0 {
			return search.ErrBudget
		}
		return nil
	})
	if err != nil || b.steps != 20 { // the class of one layer needs two steps for two arms
		t.Errorf("budget: %v after %d steps", err, b.steps)
	}
	b.failAt = b.steps + 3
	if err := Run(t.Context(), b, searches, func() error { return nil }); err == nil || err.Error() != "runner died" {
		t.Errorf("death: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, &bench{}, searches, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
