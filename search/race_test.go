package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/search/stat"
	"pgregory.net/rapid"
)

func TestRaceKeepsTheBestAndTheControl(t *testing.T) {
	wrong := 0
	const races = 200
	for seed := range uint64(races) {
		rng := rand.New(rand.NewPCG(seed, 3))
		costs := []float64{1.2, 1, 1.1, 1.5, 2, 1.05}
		r := NewRace(len(costs), RaceOptions{MaxBlocks: 40, Keep: 1, Seed: seed})
		for !r.Done() {
			b := Block{Costs: make([]float64, len(costs))}
			for _, a := range r.Next() {
				b.Costs[a] = costs[a] * math.Exp(0.03*rng.NormFloat64())
			}
			r.Add(b)
		}
		alive := r.Alive()
		if alive[0] != 0 {
			t.Fatal("the control was eliminated")
		}
		if !slices.Contains(alive, 1) {
			wrong++
		}
		if st := r.Standings()[3]; st.Out == 0 || st.Out > 12 {
			t.Errorf("the slowest arm left after block %d", st.Out)
		}
	}
	if wrong > races/20 {
		t.Errorf("%d of %d races eliminated the best arm, alpha is 5%%", wrong, races)
	}
}

// Of arms that are equal each is a best one: that the race eliminates any is an error, which alpha bounds
// for all of them together, whatever their number.
func TestRaceSharesOutItsError(t *testing.T) {
	const races, arms = 200, 12
	wrong := 0
	for seed := range uint64(races) {
		rng := rand.New(rand.NewPCG(seed, 5))
		r := NewRace(arms, RaceOptions{Seed: seed})
		for !r.Done() {
			b := Block{Costs: make([]float64, arms)}
			for _, a := range r.Next() {
				b.Costs[a] = math.Exp(0.03 * rng.NormFloat64())
			}
			r.Add(b)
		}
		if len(r.Alive()) < arms {
			wrong++
		}
	}
	t.Logf("%d of %d races eliminated one of %d equal arms", wrong, races, arms)
	if wrong > races/10 {
		t.Errorf("%d of %d races eliminated one of %d equal arms", wrong, races, arms)
	}
}

func TestRaceEndsInTies(t *testing.T) {
	r := NewRace(3, RaceOptions{MaxBlocks: 100, Tie: 0.02, Seed: 1})
	rng := rand.New(rand.NewPCG(1, 1))
	for !r.Done() {
		b := Block{Costs: []float64{1, 1, 1}}
		for i := range b.Costs {
			b.Costs[i] *= math.Exp(0.005 * rng.NormFloat64())
		}
		r.Add(b)
	}
	if kept, _ := r.Kept(); kept >= 100 {
		t.Error("a race of equal arms ran to its last block")
	}
}

func TestRaceDropsBlocksBlind(t *testing.T) {
	r := NewRace(2, RaceOptions{MaxBlocks: 4})
	r.Add(Block{Costs: []float64{1, 0.1}, Disturbed: "steal"})
	r.Add(Block{Costs: []float64{math.NaN(), 0.1}})
	r.Add(Block{Costs: []float64{1, -3}})
	if kept, of := r.Kept(); kept != 1 || of != 3 {
		t.Errorf("kept %d of %d, want 1 of 3", kept, of)
	}
	if n := r.Standings()[0].Score.N; n != 0 {
		t.Errorf("%d samples of an arm that gave only impossible ones", n)
	}
	for range 20 {
		r.Add(Block{Costs: []float64{1, 1}, Disturbed: "steal"})
	}
	if !r.Done() {
		t.Error("a race of nothing but disturbed blocks goes on for ever")
	}
}

// The control never follows itself, however often a block runs it: with what it left in the caches it would
// be faster than the arms, and equal arms would look slow.
func TestControlsStandApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arms, asked := rapid.IntRange(0, 80).Draw(t, "arms"), rapid.IntRange(0, 12).Draw(t, "controls")
		r := NewRace(arms+1, RaceOptions{Controls: asked, Seed: rapid.Uint64().Draw(t, "seed")})
		places := map[int]bool{}
		for range 20 {
			order := r.Next()
			times := map[int]int{}
			for i, a := range order {
				if times[a]++; a == 0 && len(order) > 1 && order[(i+1)%len(order)] == 0 {
					t.Fatalf("the control follows itself: %v", order)
				}
			}
			if len(times) != arms+1 || times[0] != controlsOf(arms, asked) || len(order) != arms+times[0] {
				t.Fatalf("%d arms, %d controls: %v", arms, asked, order)
			}
			places[slices.Index(order, 0)] = true
		}
		if arms > 2 && controlsOf(arms, asked) < 3 && len(places) < 2 {
			t.Fatalf("the control keeps its place")
		}
	})
	r := NewRace(9, RaceOptions{Seed: 1, MaxBlocks: 1 << 20})
	rng := rand.New(rand.NewPCG(1, 9))
	var scores []float64
	last := -1
	for range 400 {
		b, times := Block{Costs: make([]float64, 9)}, make([]float64, 9)
		for _, a := range r.Next() {
			cost := math.Exp(0.03 * rng.NormFloat64())
			if a == last {
				cost *= 0.7
			}
			last = a
			b.Costs[a] += cost
			times[a]++
		}
		for a := range b.Costs {
			b.Costs[a] /= times[a]
		}
		scores = append(scores, stat.Mean([]float64{math.Log(b.Costs[0] / b.Costs[1]), math.Log(b.Costs[0] / b.Costs[8])}))
	}
	if m := stat.Mean(scores); math.Abs(m) > 0.01 {
		t.Errorf("arms that equal the control score %.3f", m)
	}
}
