package measure

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/search/stat"
	"pgregory.net/rapid"
)

// fill adds n passes of each arm: value times lognormal noise, arm by arm.
func fill(t *testing.T, j *Judge, metric string, seed uint64, n int, sigma float64, values map[string]float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for pass := range n {
		for _, a := range j.arms {
			if v, ok := values[a.Name]; ok {
				s, e := ran(a.Name, pass, metric, v*math.Exp(sigma*rng.NormFloat64()))
				mustAdd(t, j, s, e)
			}
		}
	}
}

func TestImpossibleSamplesAreRejected(t *testing.T) {
	j := newJudge(t, Options{}, "default", "arm")
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		s, e := ran("arm", 1, DecodeRate.Name, v)
		if err := j.Add(s, e); !errors.Is(err, ErrImpossible) {
			t.Errorf("%g was taken: %v", v, err)
		}
	}
	for name, spoil := range map[string]func(*Sample){
		"no work": func(s *Sample) { s.Work = 0 }, "stranger": func(s *Sample) { s.Arm = "x" },
		"undeclared metric": func(s *Sample) { s.Metric = "x" },
	} {
		s, e := ran("arm", 1, DecodeRate.Name, 1)
		if spoil(&s); !errors.Is(j.Add(s, e), ErrImpossible) {
			t.Errorf("%s was taken", name)
		}
	}
	s, e := ran("arm", 1, DecodeRate.Name, 1)
	if e.Nonce, s.Receipt.Nonce = "", ""; !errors.Is(j.Add(s, e), ErrReceipt) {
		t.Error("a sample without a nonce was taken")
	}
	if got := len(j.Values(DecodeRate.Name, "arm")); got != 0 {
		t.Errorf("%d values from rejected samples", got)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name        string
		metric      Metric
		value       float64 // against 100
		sigma       float64
		floor       Floor
		want        Decision
		why, median string
	}{
		{"faster", DecodeRate, 110, 0.003, quietFloor, Winner, "better past", ""},
		{"less time", CallTime, 90, 0.003, quietFloor, Winner, "better past", ""},
		{"more time", CallTime, 110, 0.003, quietFloor, NoWinner, "worse than", ""},
		{"slower", DecodeRate, 90, 0.003, quietFloor, NoWinner, "worse than", ""},
		{"half a percent", DecodeRate, 100.5, 0.0005, quietFloor, NoWinner, "margin", ""},
		{"wide", DecodeRate, 103, 0.05, quietFloor, NoWinner, "margin", ""},
		{"within the floor", DecodeRate, 103, 0.003, Floor{Noise: 0.05, Level: Limited}, NoWinner, "noise floor", ""},
		{"above a high floor", DecodeRate, 110, 0.003, Floor{Noise: 0.05, Level: Limited}, Winner, "better past", ""},
		{"refused", DecodeRate, 110, 0.003, Floor{Noise: 0.2, Level: Refused, Why: "host busy"}, NoWinner, "host busy", ""},
	} {
		j := newJudge(t, Options{}, "default", "arm")
		fill(t, j, c.metric.Name, 3, 11, c.sigma, map[string]float64{"default": 100, "arm": c.value})
		v := j.Verdict(c.metric.Name, "arm", c.floor, Margin)
		if v.Decision != c.want || !strings.Contains(v.Why, c.why) {
			t.Errorf("%s: %+v, want %s (%s)", c.name, v, c.want, c.why)
		}
	}
}

func TestDisturbedBlocksAreDroppedBlind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := newJudge(t, Options{}, "default", "arm")
		fill(t, j, CallTime.Name, rapid.Uint64().Draw(rt, "seed"), 10, 0.01, map[string]float64{"default": 100, "arm": 95})
		void := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 9, rapid.ID[int]).Draw(rt, "void")
		for _, b := range void {
			j.Disturb(b, "steal")
		}
		if k, n := j.Kept(); k != 10-len(void) || n != 10 {
			rt.Fatalf("kept %d of %d", k, n)
		}
		for _, arm := range []string{"default", "arm"} {
			if got := len(j.Values(CallTime.Name, arm)); got != 10-len(void) {
				rt.Fatalf("%s kept %d values", arm, got)
			}
		}
	})
}

func TestTieBandHasAFixedOrder(t *testing.T) {
	for seed := range uint64(20) {
		j := newJudge(t, Options{}, "default", "a", "b", "c")
		fill(t, j, DecodeRate.Name, seed, 11, 0.002, map[string]float64{"default": 100, "a": 120, "b": 120.2, "c": 105})
		if v := j.Choose(DecodeRate.Name, Floor{Noise: 0.008, Level: Normal}, Margin); v.Arm != "a" || v.Decision != Winner {
			t.Errorf("seed %d: chose %+v", seed, v)
		}
	}
	j := newJudge(t, Options{}, "default", "a")
	if v := j.Choose(DecodeRate.Name, quietFloor, Margin); v.Decision != NoWinner {
		t.Errorf("a winner without data: %+v", v)
	}
}

func TestFloorLevels(t *testing.T) {
	for _, c := range []struct {
		sigma float64
		want  Level
	}{{0.005, Normal}, {0.05, Limited}, {0.5, Refused}} {
		rng := rand.New(rand.NewPCG(2, 2))
		var aa []float64
		for range 12 {
			aa = append(aa, c.sigma*rng.NormFloat64())
		}
		if f := AAFloor(aa, 8, 1, 1); f.Level != c.want || f.Dropped != 1 {
			t.Errorf("sigma %g: %+v, want %s", c.sigma, f, c.want)
		}
	}
	f := AAFloor([]float64{0.01, 0}, 8, 0, 1)
	if f.Level != Refused {
		t.Errorf("two pairs gave a floor: %+v", f)
	}
	if b, err := json.Marshal(f); err != nil || !strings.Contains(string(b), `"aa_noise":null`) {
		t.Errorf("%s %v", b, err)
	}
}

func TestVerdictJSON(t *testing.T) {
	v := Verdict{Arm: "x", Ratio: Ratio{1.1, math.Inf(-1), math.Inf(1)}}
	b, err := json.Marshal(v)
	if err != nil || !strings.Contains(string(b), `"ratio":{"hi":null,"lo":null,"median":1.1}`) {
		t.Fatalf("%s %v", b, err)
	}
	var back Verdict
	if err := json.Unmarshal(b, &back); err != nil || back.Ratio != v.Ratio {
		t.Errorf("%+v %v", back, err)
	}
}

func TestConfirmationWantsFreshProcesses(t *testing.T) {
	j := newJudge(t, Options{Fresh: true}, "default", "arm")
	s, e := ran("arm", 1, DecodeRate.Name, 70)
	mustAdd(t, j, s, e)
	s.Block = 2
	if err := j.Add(s, e); !errors.Is(err, ErrReceipt) || !strings.Contains(err.Error(), "not fresh") {
		t.Errorf("a process served two passes: %v", err)
	}
}

func TestDirectionOfBest(t *testing.T) {
	vals := []float64{3, 1, 2}
	if DecodeRate.Best(vals) != 0 || RssPeak.Best(vals) != 1 || CallTime.Best(nil) != -1 {
		t.Error("best is the greatest of a rate and the least of memory and latency")
	}
	if (Metric{Name: "x"}).Validate() == nil {
		t.Error("a metric without a direction was accepted")
	}
}

func TestPlantedSabotage(t *testing.T) {
	arms := []Arm{
		{Name: "default", Evidence: map[string]string{"artifact": "a"}},
		{Name: "arm", Evidence: map[string]string{"artifact": "b"}},
	}
	planted, p, err := Plant(arms)
	if err != nil {
		t.Fatal(err)
	}
	run := func(spoil func(*Judge), slow float64) error {
		j, err := New(planted, []Metric{CallTime}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, j, CallTime.Name, 1, 8, 0.01, map[string]float64{
			"default": 100, "arm": 80, p.Inert: 100, p.Twin: 80, p.Slow: slow})
		if spoil != nil {
			spoil(j)
		}
		return p.Check(j, CallTime.Name, quietFloor).Err()
	}
	if err := run(nil, 200); err != nil {
		t.Errorf("an honest run is void: %v", err)
	}
	for what, err := range map[string]error{
		"slowed arm as fast as the default":  run(nil, 100),
		"evidence that changes by itself":    run(func(j *Judge) { j.arms[2].Evidence = map[string]string{"artifact": "z"} }, 200),
		"twin under another digest":          run(func(j *Judge) { j.arms[3].Evidence = map[string]string{"artifact": "y"} }, 200),
		"samples that never reach the judge": run(func(j *Judge) { j.Disturb(0, "x"); clear(j.values) }, 200),
	} {
		if !errors.Is(err, ErrVoid) {
			t.Errorf("%s: the run is not void: %v", what, err)
		}
	}
	j, err := New(planted, []Metric{CallTime}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, j, CallTime.Name, 1, 8, 0.001, map[string]float64{"default": 100, "arm": 80, p.Inert: 90, p.Twin: 88, p.Slow: 200})
	s := p.Check(j, CallTime.Name, quietFloor)
	if len(s.Missed) != 2 || s.Missed[0].Arm != p.Inert || s.Missed[1].Arm != p.Twin || len(s.Caught) != 1 {
		t.Errorf("places that show in an arm's value: %+v", s)
	}
	if _, _, err := Plant(arms[:1]); err == nil {
		t.Error("planted among one arm")
	}
}

// Arms that ran beside each other are compared by the turns that they share: that half of the turns is
// faster, and which of the other turns are, does not tell one from the other.
func TestBesideComparesLikeWithLike(t *testing.T) {
	j := newJudge(t, Options{}, "default", "planted")
	for block := range 4 {
		for turn, v := range []float64{100, 130, 100, 130, 130} {
			s, e := ran("default", block, DecodeRate.Name, v)
			s.Turn = turn
			mustAdd(t, j, s, e)
			if turn == 1 || turn == 2 {
				s, e = ran("planted", block, DecodeRate.Name, []float64{100, 130}[turn-1])
				s.Turn = turn
				mustAdd(t, j, s, e)
			}
		}
	}
	j.Disturb(3, "steal")
	for _, g := range [][]float64{j.Beside(DecodeRate.Name, "planted", "default"), j.Beside(DecodeRate.Name, "default", "planted")} {
		if len(g) != 3 || math.Abs(g[0])+math.Abs(g[1])+math.Abs(g[2]) > 1e-12 {
			t.Errorf("beside: %v", g)
		}
	}
	if g := j.Gains(DecodeRate.Name, "planted", "default"); len(g) != 3 || math.Abs(g[0]) < 0.1 {
		t.Errorf("the trap is not set: %v", g)
	}
}

func TestRankingNeedsRoom(t *testing.T) {
	j := newJudge(t, Options{}, "default", "a", "b")
	fill(t, j, DecodeRate.Name, 1, 5, 0.01, map[string]float64{"default": 100, "a": 120, "b": 60})
	if r := j.Ranking(DecodeRate.Name); r.Refused != "" || r.Rows[0].Arm != "a" || r.Rows[2].Arm != "b" {
		t.Errorf("%+v", r)
	}
	for pass, v := range []float64{104, 104, 125, 104, 104} {
		for arm, v := range map[string]float64{"default": 100, "a": v} {
			s, e := ran(arm, pass, PrefillRate.Name, v)
			mustAdd(t, j, s, e)
		}
	}
	if r := j.Ranking(PrefillRate.Name); r.Rows[0].Spread < r.Rows[1].Spread || r.Refused == "" {
		t.Errorf("one of the two is all over the place, and they are ranked: %+v", r)
	}
	if got := len(j.Gains(DecodeRate.Name, "a", "default")); got < stat.MinPairs {
		t.Errorf("%d pairs", got)
	}
}
