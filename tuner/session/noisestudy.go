package session

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/insitu"
	"github.com/tilewright/tilewright/tuner/runner"
)

// noiseStudy is a study under way.
type noiseStudy struct {
	t       *tune
	a       *arena
	classes []model.Class
	share   map[string]float64 // of the step, by class
}

// prepare finds the classes and what share of a step each takes.
func (s *noiseStudy) prepare(ctx context.Context) error {
	for _, c := range s.t.classes {
		if c.Format.IsFloat() {
			continue
		}
		sq, err := s.t.square(c)
		if err != nil {
			return err
		}
		q, err := s.t.questOf(ctx, sq, s.a.m)
		if err != nil {
			return err
		}
		s.classes = append(s.classes, sq)
		s.a.classes[q.name], s.a.defaults[q.name] = sq, q.def
	}
	for range 5 {
		ts, got, err := s.step(ctx, s.a.warm, 4, nil)
		if err != nil {
			return err
		}
		for _, x := range ts {
			for _, sec := range x.Seconds {
				s.share[x.Class] += sec / got.Pass / 5
			}
		}
	}
	return nil
}

// step runs passes with the configurations given by class, the default where there is none.
func (s *noiseStudy) step(ctx context.Context, warm, repeat int, by map[string]kernel.Config) ([]insitu.Timing, runner.StepTimes, error) {
	var as []insitu.Assignment
	for _, c := range s.classes {
		cfg, ok := by[c.String()]
		if !ok {
			cfg = s.a.defaults[c.String()].Config
		}
		as = append(as, s.a.uniform(c.String(), len(runner.LayersOf(c)), cfg))
	}
	h, err := s.a.deal(ctx, as)
	if err != nil {
		return nil, runner.StepTimes{}, err
	}
	h.Warm, h.Repeat = warm, repeat
	got, err := s.a.run(ctx, h)
	return s.a.timings(h, got), got, err
}

// byRuns collects pairs of runs until the time is up.
func (s *noiseStudy) byRuns(ctx context.Context, each time.Duration) (Spread, error) {
	var xs []float64
	for end := s.t.now().Add(each); s.t.now().Before(end); {
		x, err := s.byRun(ctx, len(xs))
		if err != nil {
			return Spread{}, err
		}
		xs = append(xs, x)
	}
	return Spread{Pairs: len(xs), SD: stat.SD(xs), Half: stat.CI(xs, 0.95).Half()}, nil
}

// inSitu is one pair of the default against itself: two steps in which the layers change sides, each
// class weighed by its share of the step, and the longer wait of the two.
func (s *noiseStudy) inSitu(ctx context.Context, n int) (total, wait float64, err error) {
	for turn := range 2 {
		ts, got, err := s.step(ctx, s.a.warm, s.a.repeat, nil)
		if err != nil {
			return 0, 0, err
		}
		wait = max(wait, got.Wait.Share)
		for _, x := range ts {
			d := sides(x.Seconds, turn+n)
			if len(x.Seconds) > 1 {
				d /= 2
			}
			total += s.share[x.Class] * d
		}
	}
	return total, wait, nil
}

// sides is the difference of the mean ln seconds of odd and even layers, its sign by turn. A single
// layer is on one side, the other one in the next turn.
func sides(seconds []float64, turn int) float64 {
	var sum [2]float64
	var n [2]float64
	for i, x := range seconds {
		sum[(i+turn)%2] += math.Log(x)
		n[(i+turn)%2]++
	}
	return sum[1]/max(1, n[1]) - sum[0]/max(1, n[0])
}

// byRun is one pair of runs of the default.
func (s *noiseStudy) byRun(ctx context.Context, n int) (float64, error) {
	var ln [2]float64
	for turn := range 2 {
		_, got, err := s.step(ctx, s.a.warm, noiseRun, nil)
		if err != nil {
			return 0, err
		}
		ln[(turn+n)%2] = math.Log(got.Pass)
	}
	return ln[1] - ln[0], nil
}

// rank measures some configurations of the class that takes the most time in both ways.
func (s *noiseStudy) rank(ctx context.Context, each time.Duration, n *Noise) error {
	best := slices.MaxFunc(s.classes, func(a, b model.Class) int {
		return int(1e6 * (s.share[a.String()] - s.share[b.String()]))
	})
	n.Class, n.Share = best.String(), s.share[best.String()]
	arms, err := s.arms(ctx, n.Class)
	if err != nil {
		return err
	}
	in, err := s.rankInSitu(ctx, each, best, arms)
	if err != nil {
		return err
	}
	whole, err := s.rankWhole(ctx, each, n.Class, arms)
	if err != nil {
		return err
	}
	for i := 1; i < len(arms); i++ {
		for k, g := range in[i] { // of the class -> of the step
			in[i][k] = -math.Log1p(n.Share * math.Expm1(-g))
		}
		n.Ranked = append(n.Ranked, Rank{arms[i], gainOf(in[i]), gainOf(whole[i])})
	}
	n.compare()
	return nil
}

// arms are the default and some other configurations that compute right.
func (s *noiseStudy) arms(ctx context.Context, class string) ([]kernel.Config, error) {
	def := s.a.defaults[class]
	space, err := s.t.space(ctx, def)
	if err != nil {
		return nil, err
	}
	strat, err := search.NewDefault(space, s.t.Seed, 4*noiseConfigs)
	if err != nil {
		return nil, err
	}
	arms := []kernel.Config{def.Config}
	for _, c := range strat.Ask(4 * noiseConfigs) {
		if len(arms) <= noiseConfigs && c.Config.String() != def.Config.String() && s.t.vet(ctx, def, c.Config) == nil {
			arms = append(arms, c.Config)
		}
	}
	if len(arms) < 3 {
		return nil, fmt.Errorf("%s has %d configurations that run: nothing to rank", class, len(arms))
	}
	return arms, ctx.Err()
}

// rankInSitu returns the log-gains over the default, by configuration, of a Latin square's blocks.
func (s *noiseStudy) rankInSitu(ctx context.Context, each time.Duration, c model.Class, arms []kernel.Config) ([][]float64, error) {
	out := make([][]float64, len(arms))
	orders := stat.NewOrders(len(arms), s.t.Seed)
	sr := insitu.Search{Class: insitu.Class{Name: c.String(), Layers: runner.LayersOf(c)}, Run: func(src search.Source) error {
		for {
			b, err := src.Measure(arms, orders.Next())
			if err != nil {
				return err
			}
			for i, cost := range b.Costs {
				if b.Disturbed == "" {
					out[i] = append(out[i], math.Log(b.Costs[0]/cost))
				}
			}
		}
	}}
	return out, insitu.Run(ctx, s.a, []insitu.Search{sr}, s.t.inTime(s.t.now().Add(each), bench.Test{Gen: 1}))
}

// rankWhole does the same with whole steps: one configuration in all layers at a time.
func (s *noiseStudy) rankWhole(ctx context.Context, each time.Duration, class string, arms []kernel.Config) ([][]float64, error) {
	out := make([][]float64, len(arms))
	orders := stat.NewOrders(len(arms), s.t.Seed)
	for end := s.t.now().Add(each); s.t.now().Before(end); {
		ln := make([]float64, len(arms))
		for _, i := range orders.Next() {
			_, got, err := s.step(ctx, s.a.warm, s.a.repeat, map[string]kernel.Config{class: arms[i]})
			if err != nil {
				return nil, err
			}
			ln[i] = math.Log(got.Pass)
		}
		for i := range arms {
			out[i] = append(out[i], ln[0]-ln[i])
		}
	}
	return out, nil
}
