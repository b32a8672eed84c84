package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"pgregory.net/rapid"
)

// tileSpace resembles a register tile: 240 points, 3 constraints.
func tileSpace() kernel.Space {
	return kernel.Space{Version: "1", Params: []kernel.Param{
		{Name: "mr", Values: []int64{1, 2, 4, 6, 8}, Default: 1},
		{Name: "nr", Values: []int64{1, 2, 3, 4}, Default: 1},
		{Name: "unroll", Values: []int64{1, 2, 4}, Default: 1},
		{Name: "prefetch", Values: []int64{0, 1, 2, 3}, Default: 0},
	}, Constraints: []kernel.Constraint{
		{Doc: "accumulators", Terms: [][]string{{"mr", "nr"}, {"4"}}, Max: 20},
		{Doc: "code size", Terms: [][]string{{"mr", "nr", "unroll"}}, Max: 32},
	}}
}

// trueCost is smooth with an interaction; best at mr=4, nr=4, unroll=2, prefetch=2.
func trueCost(c kernel.Config) float64 {
	d := func(a, b int64) float64 { return math.Abs(float64(a - b)) }
	return 1 + 0.1*d(c["mr"], 4) + 0.1*d(c["nr"], 4) + 0.05*d(c["unroll"], 2)*d(c["mr"], 3) + 0.08*d(c["prefetch"], 2)
}

// bench is a source over trueCost with lognormal noise, a budget in samples and planted failures.
type bench struct {
	rng    *rand.Rand
	sigma  float64
	budget int
	crash  func(kernel.Config) bool
	calls  map[string]int
}

func newBench(seed uint64, sigma float64, budget int) *bench {
	return &bench{rng: rand.New(rand.NewPCG(seed, 1)), sigma: sigma, budget: budget, calls: map[string]int{}}
}

func (b *bench) Measure(arms []kernel.Config, order []int) (Block, error) {
	if b.budget < len(order) {
		return Block{}, ErrBudget
	}
	b.budget -= len(order)
	out := Block{Costs: make([]float64, len(arms)), Failures: map[int]string{}}
	for i := range out.Costs {
		out.Costs[i] = math.NaN()
	}
	for _, a := range order {
		b.calls[arms[a].String()]++
		if a > 0 && b.crash != nil && b.crash(arms[a]) {
			out.Failures[a] = "SIGILL"
			continue
		}
		out.Costs[a] = trueCost(arms[a]) * math.Exp(b.sigma*b.rng.NormFloat64())
	}
	return out, nil
}

func strategies(t testing.TB, s kernel.Space, seed uint64) []Strategy {
	t.Helper()
	var out []Strategy
	add := func(st Strategy, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, st)
	}
	add(NewExhaustive(s, 3))
	add(NewRandom(s, seed, 80, 3))
	add(NewDescent(s, seed, 3, 3))
	add(NewHalving(s, seed, 48, 3, 1))
	add(NewTPE(s, seed, 80, 3))
	return out
}

func TestStrategiesFindAGoodPoint(t *testing.T) {
	s := tileSpace()
	best := math.Inf(1)
	if err := Enumerate(s, func(c kernel.Config) bool { best = min(best, trueCost(c)); return true }); err != nil {
		t.Fatal(err)
	}
	for _, st := range strategies(t, s, 7) {
		b := newBench(3, 0.01, 1<<20)
		if err := Run(st, s.Default(), b, RunOptions{}); err != nil {
			t.Fatal(err)
		}
		top := st.Best(1)[0]
		if got := trueCost(top.Config); got > 1.15*best {
			t.Errorf("%s: found %s at %.3f, best is %.3f", st.Name(), top.Config, got, best)
		}
		if want := math.Log(trueCost(s.Default()) / trueCost(top.Config)); math.Abs(top.Score-want) > 0.05 {
			t.Errorf("%s: score %.3f, true log-speedup %.3f", st.Name(), top.Score, want)
		}
	}
}

func TestStrategiesAreDeterministic(t *testing.T) {
	run := func() string {
		var out string
		for _, st := range strategies(t, tileSpace(), 5) {
			if err := Run(st, tileSpace().Default(), newBench(9, 0.03, 1500), RunOptions{}); err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprintln(st.Name(), st.Best(5))
		}
		return out
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

func TestFailuresAreDataAndNeverRetried(t *testing.T) {
	s := tileSpace()
	for _, st := range strategies(t, s, 11) {
		b := newBench(1, 0.01, 1<<20)
		b.crash = func(c kernel.Config) bool { return c["nr"] == 4 }
		if err := Run(st, s.Default(), b, RunOptions{}); err != nil {
			t.Fatal(err)
		}
		for key, n := range b.calls {
			if n > 1 && key != s.Default().String() {
				var nr int64
				fmt.Sscanf(key[len("mr=0,"):], "nr=%d", &nr)
				if nr == 4 {
					t.Errorf("%s: ran crashing %s %d times", st.Name(), key, n)
				}
			}
		}
		for _, r := range st.Best(1 << 20) {
			if r.Config["nr"] == 4 {
				t.Errorf("%s: a failed configuration is among the best", st.Name())
			}
		}
	}
}

func TestBudgetEndsARun(t *testing.T) {
	for _, st := range strategies(t, tileSpace(), 2) {
		b := newBench(1, 0.02, 100)
		if err := Run(st, tileSpace().Default(), b, RunOptions{}); err != nil {
			t.Errorf("%s: %v", st.Name(), err)
		}
		if b.budget < 0 {
			t.Errorf("%s: overspent", st.Name())
		}
	}
}

// However little time a race of the finalists has, a stage of it says something: the winner rests on
// new data, not on what led by luck.
func TestFinalsOfFewBlocks(t *testing.T) {
	for _, blocks := range []int{3, 4, 6} { // that the budget has room for, all stages together
		left := 1.0
		src := sourceFunc(func(arms []kernel.Config, order []int) (Block, error) {
			if left <= 0 {
				return Block{}, ErrBudget
			}
			left -= 1 / float64(blocks)
			return newBench(1, 0, 1000).Measure(arms, order)
		})
		st, err := NewExhaustive(tileSpace(), 1)
		if err != nil {
			t.Fatal(err)
		}
		arms := []kernel.Config{tileSpace().Default()}
		for _, mr := range []int64{2, 4, 6} {
			arms = append(arms, kernel.Config{"mr": mr, "nr": 1, "unroll": 1, "prefetch": 0})
		}
		f := final{s: st, o: RunOptions{Left: func() float64 { return left }}, arms: arms[1:], new: map[string]*Result{}, gains: map[string][]float64{}}
		if err := f.race(arms, src); err != nil && !errors.Is(err, ErrBudget) {
			t.Fatal(err)
		}
		if r := f.best(); r == nil || r.Blocks < minFinal || r.Config["mr"] != 4 {
			t.Errorf("room for %d blocks: %+v", blocks, r)
		}
	}
}

type sourceFunc func([]kernel.Config, []int) (Block, error)

func (f sourceFunc) Measure(arms []kernel.Config, order []int) (Block, error) { return f(arms, order) }

func TestControlOutsideTheSpace(t *testing.T) {
	s := tileSpace()
	ctl := kernel.Config{"mr": 3, "nr": 1, "unroll": 1, "prefetch": 0}
	for _, st := range strategies(t, s, 2) {
		if err := Run(st, ctl, newBench(1, 0.01, 1<<20), RunOptions{}); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(st.Best(1<<20), func(r Result) bool { return s.Check(r.Config) == nil }) {
			t.Errorf("%s measured nothing", st.Name())
		}
	}
}

// anySpace draws a small random space, constraints of positive and negative coefficients included.
func anySpace(t *rapid.T) kernel.Space {
	s := kernel.Space{Version: "1"}
	n := rapid.IntRange(0, 4).Draw(t, "params")
	for i := range n {
		vals := rapid.SliceOfNDistinct(rapid.Int64Range(-3, 9), 1, 4, rapid.ID[int64]).Draw(t, "values")
		s.Params = append(s.Params, kernel.Param{Name: string(rune('a' + i)), Values: vals, Default: vals[0]})
	}
	for range rapid.IntRange(0, 2).Draw(t, "constraints") {
		k := kernel.Constraint{Doc: "c", Max: rapid.Int64Range(-20, 60).Draw(t, "max")}
		for range rapid.IntRange(1, 2).Draw(t, "terms") {
			term := []string{fmt.Sprint(rapid.IntRange(-2, 3).Draw(t, "coef"))}
			for i := range n {
				if rapid.Bool().Draw(t, "in") {
					term = append(term, string(rune('a'+i)))
				}
			}
			k.Terms = append(k.Terms, term)
		}
		s.Constraints = append(s.Constraints, k)
	}
	return s
}

// bruteForce lists the members by Space.Check alone.
func bruteForce(s kernel.Space) map[string]bool {
	out := map[string]bool{}
	var rec func(i int, c kernel.Config)
	rec = func(i int, c kernel.Config) {
		if i == len(s.Params) {
			if s.Check(c) == nil {
				out[c.String()] = true
			}
			return
		}
		for _, v := range s.Params[i].Values {
			c[s.Params[i].Name] = v
			rec(i+1, c)
		}
	}
	rec(0, kernel.Config{})
	return out
}

func TestEnumerateSampleAndProposals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySpace(t)
		if s.Validate() != nil {
			t.Skip("default breaks a constraint")
		}
		want := bruteForce(s)
		got := map[string]bool{}
		if err := Enumerate(s, func(c kernel.Config) bool { got[c.String()] = true; return true }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("enumerated %v, members are %v", got, want)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		m, err := newMemory(s, seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			p := m.random()
			if !want[m.config(p).String()] || m.config(m.locate(m.config(p))).String() != m.config(p).String() {
				t.Fatalf("sampled %v", p)
			}
			if q := m.mutate(p); q != nil && !want[m.config(q).String()] {
				t.Fatalf("mutated %v to %v", p, q)
			}
		}
		st, _ := NewHalving(s, seed, 8, 50, 1)
		tp, _ := NewTPE(s, seed, 1000, 1)
		rd, _ := NewRandom(s, seed, 1000, 1)
		for _, st := range []Strategy{st, tp, rd} {
			seen := map[string]bool{}
			for !st.Done() {
				cands := st.Ask(4)
				var rs []Result
				for _, c := range cands {
					seen[c.Config.String()] = true
					rs = append(rs, Result{Config: c.Config, Score: float64(len(seen) % 3), Blocks: c.Blocks})
				}
				if st.Tell(rs); len(cands) == 0 {
					break
				}
			}
			if len(seen) != len(want) {
				t.Fatalf("%s saw %d of %d members", st.Name(), len(seen), len(want))
			}
			for k := range seen {
				if !want[k] {
					t.Fatalf("%s proposed %s, not a member", st.Name(), k)
				}
			}
		}
	})
}
