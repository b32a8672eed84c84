package replay

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
)

// Source plays a recording back, deterministic by seed. What a sample was is taken apart into the
// level of its block, the effect of its configuration and the rest; a block of the replay draws a
// level, and of every arm one of its own rests for each layer that it gets, so that the noise is the
// recorded noise. It may be asked for more blocks than were recorded.
type Source struct {
	Steps int // left; one serves as many samples as there are layers

	layers  int
	steps   int
	turn    int
	rng     *rand.Rand
	levels  []float64            // ln, of the blocks
	samples map[string][]float64 // by configuration: ln cost less the level of its block
	effects map[string]float64   // their medians
	failed  map[string]string
}

const control = "" // the control among configurations

// fits is how often effects and levels are fitted in turn; three do, for blocks that share arms.
const fits = 6

// NewSource plays rec back under a budget of steps, each of which times a number of layers. Disturbed
// blocks are left out.
func NewSource(rec *Recording, steps, layers int, seed uint64) (*Source, error) {
	s := &Source{Steps: steps, steps: steps, layers: max(layers, 1), rng: rand.New(rand.NewPCG(seed, 0x4e91)),
		samples: map[string][]float64{}, effects: map[string]float64{}, failed: map[string]string{}}
	void := map[int]bool{}
	for _, x := range rec.Samples {
		if x.Disturbed != "" {
			void[x.Block] = true
		}
	}
	rows := map[int]map[string]float64{}
	order := []int{}
	for _, x := range rec.Samples {
		switch {
		case x.Failure != "" && !x.Control:
			s.failed[x.Config.String()] = x.Failure
		case x.Failure == "" && x.Disturbed == "" && !void[x.Block]:
			if rows[x.Block] == nil {
				rows[x.Block] = map[string]float64{}
				order = append(order, x.Block)
			}
			key := control
			if !x.Control {
				key = x.Config.String()
			}
			rows[x.Block][key] = math.Log(x.Cost)
		}
	}
	s.fit(rows, order)
	if _, ok := s.effects[control]; !ok {
		return nil, fmt.Errorf("%w: no undisturbed block holds the control", ErrRecording)
	}
	return s, nil
}

// Again is the same recording from its beginning, under another budget and seed.
func (s *Source) Again(steps, layers int, seed uint64) *Source {
	c := *s
	c.Steps, c.steps, c.layers, c.turn = steps, steps, max(layers, 1), 0
	c.rng = rand.New(rand.NewPCG(seed, 0x4e91))
	return &c
}

// fit takes ln costs, by block and configuration, apart by medians (Tukey's median polish).
func (s *Source) fit(rows map[int]map[string]float64, order []int) {
	for range fits {
		levels := make([]float64, len(order))
		for i, b := range order {
			var rest []float64
			for key, v := range rows[b] {
				rest = append(rest, v-s.effects[key])
			}
			levels[i] = stat.Median(rest)
		}
		s.levels = levels
		clear(s.samples)
		for i, b := range order {
			for key, v := range rows[b] {
				s.samples[key] = append(s.samples[key], v-levels[i])
			}
		}
		for key, v := range s.samples {
			s.effects[key] = stat.Median(v)
		}
	}
}

// Left is the share of the steps that is left.
func (s *Source) Left() float64 { return float64(s.Steps) / float64(max(s.steps, 1)) }

// Score is the recorded log-speedup of a configuration over the control, false if it has none.
func (s *Source) Score(c kernel.Config) (float64, bool) {
	key := c.String()
	e, ok := s.effects[key]
	if !ok || s.failed[key] != "" {
		return 0, false
	}
	return s.effects[control] - e, true
}

// Measure plays one block.
func (s *Source) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	steps := (len(order) + s.layers - 1) / s.layers
	if s.Steps < steps {
		return search.Block{}, search.ErrBudget
	}
	s.Steps -= steps
	b := search.Block{Failures: map[int]string{}}
	values, level := make([][]float64, len(arms)), s.levels[s.rng.IntN(len(s.levels))]
	for range max(steps*s.layers, len(order)) {
		a := order[s.turn%len(order)]
		s.turn++
		v, why := s.draw(arms, a)
		if why != "" {
			b.Failures[a] = why
			continue
		}
		values[a] = append(values[a], v)
	}
	s.turn++ // else a layer would keep its arm
	b.Costs, b.Samples = stat.Centres(values), make([]int, len(arms))
	for a, x := range b.Costs {
		b.Costs[a] = math.Exp(level + x) // NaN where there is none
		b.Samples[a] = len(values[a])
	}
	return b, nil
}

// draw is a sample of an arm less the level, or why there is none.
func (s *Source) draw(arms []kernel.Config, a int) (float64, string) {
	key := control
	if a > 0 {
		key = arms[a].String()
	}
	if why := s.failed[key]; why != "" {
		return 0, why
	}
	xs := s.samples[key]
	if len(xs) == 0 {
		return 0, NotRecorded
	}
	return xs[s.rng.IntN(len(xs))], ""
}
