package sim

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	full   = flag.Int("tunes", 6, "synthetic tunes of each tuner in each scenario")
	update = flag.Bool("update", false, "rewrite testdata/report.txt from all tuners: takes minutes at -tunes 60")
)

func pick(names ...string) []Tuner {
	var out []Tuner
	for _, t := range Tuners() {
		for _, n := range names {
			if t.Name == n {
				out = append(out, t)
			}
		}
	}
	return out
}

// The judge holds its promises where the truth is known: at most 1% false winners, and a choice
// within 1% of the best that was measured; best of three breaks the first by far.
func TestReport(t *testing.T) {
	tuners := pick(DefaultTuner, "best of 3")
	if *update {
		tuners = Tuners()
	}
	lines := Report(DefaultPlan, *full, tuners, Scenarios())
	total := Total(lines)
	table := Table(append(lines, total...))
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", "report.txt"), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range total {
		switch {
		case l.Tuner == DefaultTuner && (l.False > 0.01 || l.RegretSeen > 0.015):
			t.Errorf("%s: %.2f%% false winners, %.2f%% mean regret", l.Tuner, 100*l.False, 100*l.RegretSeen)
		case l.Tuner == "best of 3" && l.False < 0.05:
			t.Errorf("best of three declares only %.2f%% false winners: the noise model is too kind", 100*l.False)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + table)
	}
}

func TestTunesAreDeterministic(t *testing.T) {
	l := NewLandscape(3, 4, 0.4)
	for _, x := range pick("halving", "tpe", "descent", "best of 3") {
		if a, b := x.Tune(NewHost(Cloud, 5), l, DefaultPlan, 5), x.Tune(NewHost(Cloud, 5), l, DefaultPlan, 5); a != b {
			t.Errorf("%s: %+v and %+v", x.Name, a, b)
		}
	}
}

func TestLandscapeSpansItsSpread(t *testing.T) {
	for _, spread := range []float64{1.005, 2, 7} {
		l := NewLandscape(1, spread, 0)
		lo, hi := math.Inf(1), 0.0
		for _, c := range l.Members {
			lo, hi = min(lo, l.Cost(c)), max(hi, l.Cost(c))
		}
		if math.Abs(hi/lo-spread) > 1e-9 || l.Best != lo || l.DefaultCost() != lo || len(l.Members) < 300 {
			t.Errorf("spread %g: %g to %g over %d members, default %g", spread, lo, hi, len(l.Members), l.DefaultCost())
		}
	}
}

// Each part of the noise does what it says.
func TestNoiseParts(t *testing.T) {
	mean := func(n Noise, arm func(i int) int64, pos int) float64 {
		h, sum := NewHost(n, 1), 0.0
		for i := range 2000 {
			sum += h.Sample(arm(i), 1, pos)
		}
		return sum / 2000
	}
	turn := func(i int) int64 { return int64(i%2 + 1) }
	same := func(int) int64 { return 1 }
	for name, c := range map[string]struct{ got, lo, hi float64 }{
		"none":  {mean(Noise{}, turn, 1), 1, 1},
		"first": {mean(Noise{First: 0.1}, turn, 0), 1.099, 1.101},
		"hot":   {mean(Noise{Hot: 0.3}, same, 1), 0.699, 0.702},
		"steal": {mean(Noise{Steal: 0.01, Burst: 20, Stolen: 1}, turn, 1), 1.05, 1.4},
		"clock": {mean(Noise{Clocks: 0.2, Dwell: 20}, turn, 1), 1.05, 1.15},
		"tail":  {mean(Noise{Tail: 0.1}, turn, 1), 1.005, 1.1},
		"trend": {mean(Noise{Trend: 0.0001}, turn, 1), 1.05, 1.2},
		"drift": {mean(Noise{Drift: 0.001}, turn, 1), 0.8, 1.25},
	} {
		if c.got < c.lo || c.got > c.hi {
			t.Errorf("%s: mean cost %.4f, want %g to %g", name, c.got, c.lo, c.hi)
		}
	}
	h := NewHost(Noise{Steal: 1, Burst: 1, Stolen: 1, Seen: 1}, 1)
	h.Sample(1, 1, 0)
	if !h.Disturbed() || h.Disturbed() {
		t.Error("a guard that sees all saw nothing, or the same burst twice")
	}
}

func TestRecordedReport(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range Tuners() {
		if !strings.Contains(string(b), x.Name) {
			t.Errorf("testdata/report.txt lacks %s: run go test ./search/sim -run TestReport -update -tunes=60", x.Name)
		}
	}
}

func BenchmarkTune(b *testing.B) {
	l := NewLandscape(1, 3, 0.4)
	for _, t := range Tuners() {
		b.Run(strings.ReplaceAll(t.Name, " ", "_"), func(b *testing.B) {
			for i := range b.N {
				t.Tune(NewHost(Cloud, uint64(i)), l, DefaultPlan, uint64(i))
			}
		})
	}
}
