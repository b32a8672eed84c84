package replay

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -update if that is meant. Got:\n%s", name, got)
	}
}

func space() kernel.Space {
	return kernel.Space{Version: "1", Params: []kernel.Param{
		{Name: "mr", Doc: "rows of a tile", Values: []int64{1, 2, 4, 6}, Default: 1},
		{Name: "streams", Doc: "panels in flight", Values: []int64{1, 2, 4}, Default: 1},
		{Name: "prefetch", Doc: "bytes ahead", Values: []int64{0, 1024}, Default: 0},
	}, Constraints: []kernel.Constraint{{Doc: "registers", Terms: [][]string{{"mr", "streams"}}, Max: 12}}}
}

// machine stands for a real one: noise, a crashing corner, a disturbed block now and then.
type machine struct {
	rng    *rand.Rand
	blocks int
}

func (m *machine) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	b := search.Block{Costs: make([]float64, len(arms)), Failures: map[int]string{}}
	m.blocks++
	speed := 1000 * math.Exp(0.05*m.rng.NormFloat64())
	for _, a := range order {
		c := arms[a]
		if c["mr"] == 6 && c["streams"] == 2 {
			b.Failures[a] = "SIGILL"
			continue
		}
		cost := 1 + 0.2*math.Abs(float64(c["mr"]-4)) + 0.1*math.Abs(float64(c["streams"]-2)) - 0.03*float64(c["prefetch"]/1024)
		b.Costs[a] = math.Round(speed*cost*math.Exp(0.01*m.rng.NormFloat64())*10) / 10
	}
	if m.blocks%5 == 0 {
		b.Disturbed = "steal"
	}
	return b, nil
}

// record is an exhaustive run on the machine.
func record(t *testing.T) *Recording {
	t.Helper()
	st, err := search.NewExhaustive(space(), 4)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(&machine{rng: rand.New(rand.NewPCG(1, 1))}, space(), space().Default())
	if err := search.Run(st, space().Default(), r, search.RunOptions{Batch: 8, Race: search.RaceOptions{MinBlocks: 99}}); err != nil {
		t.Fatal(err)
	}
	return &r.Recording
}

// The golden recording of schema 1 must stay readable whatever later schemas bring.
func TestGoldenRecording(t *testing.T) {
	var buf bytes.Buffer
	if err := record(t).Encode(&buf); err != nil {
		t.Fatal(err)
	}
	golden(t, "v1.json", buf.Bytes())
}

func TestReplayThroughEveryStrategy(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rec, err := Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := NewSource(rec, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	best := math.Inf(-1)
	if err := search.Enumerate(rec.Space, func(c kernel.Config) bool {
		if s, ok := truth.Score(c); ok {
			best = max(best, s)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, make := range []func() (search.Strategy, error){
		func() (search.Strategy, error) { return search.NewExhaustive(rec.Space, 3) },
		func() (search.Strategy, error) { return search.NewRandom(rec.Space, 1, 40, 3) },
		func() (search.Strategy, error) { return search.NewDescent(rec.Space, 1, 2, 3) },
		func() (search.Strategy, error) { return search.NewHalving(rec.Space, 1, 9, 3, 1) },
		func() (search.Strategy, error) { return search.NewTPE(rec.Space, 1, 40, 3) },
		func() (search.Strategy, error) { return search.NewBayes(rec.Space, 1, 40, 3) },
	} {
		st, err := make()
		if err != nil {
			t.Fatal(err)
		}
		src, err := NewSource(rec, 120, 1, 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := search.Run(st, rec.Control, src, search.RunOptions{Batch: 8}); err != nil {
			t.Fatal(err)
		}
		top := st.Best(1)[0]
		s, _ := truth.Score(top.Config)
		most := 0.005
		if st.Name() == "descent" { // it ends in a local optimum
			most = 0.04
		}
		if best-s > most {
			t.Errorf("%s: recorded regret %.3f", st.Name(), best-s)
		}
		fmt.Fprintf(&out, "%-10s %-28s score %.3f recorded %.3f spent %d\n", st.Name(), top.Config, top.Score, s, 120-src.Steps)
	}
	golden(t, "strategies.txt", []byte(out.String()))
}

// The recordings of a real machine play through every strategy, alike each time.
func TestRecordedMachine(t *testing.T) {
	for name, p := range recorded {
		rec := open(t, name)
		lines, err := Report(name, rec, p, 3)
		if err != nil || len(lines) != len(search.Strategies()) {
			t.Fatalf("%s: %d lines, %v", name, len(lines), err)
		}
		if again, err := Report(name, rec, p, 3); err != nil || Table(again) != Table(lines) {
			t.Errorf("%s: a replay is not deterministic: %v", name, err)
		}
	}
}

// recorded are the plans of the recordings.
var recorded = map[string]Plan{"decode": {160, 28, 0.3}, "prefill": {26, 28, 0.3}}

func open(t *testing.T, name string) *Recording {
	t.Helper()
	rec, err := Open(filepath.Join("testdata", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// The default loses little of what was recorded, in the mean of many replays.
func TestRecordedRegret(t *testing.T) {
	const replays = 40
	for name, most := range map[string]float64{"decode": 0.02, "prefill": 0.005} {
		rec := open(t, name)
		truth, err := NewSource(rec, 0, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		best := 0.0
		if err := search.Enumerate(rec.Space, func(c kernel.Config) bool {
			s, _ := truth.Score(c)
			best = max(best, s)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		regret := 0.0
		for seed := range uint64(replays) {
			gain, _, err := once(rec, truth, search.Strategies()[0], recorded[name], seed)
			if err != nil {
				t.Fatal(err)
			}
			regret += (best - gain) / replays
		}
		t.Logf("%s: the default lost %.2f%%", name, 100*regret)
		if regret > most {
			t.Errorf("%s: the default lost %.2f%%, at most %.1f%%", name, 100*regret, 100*most)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const ok = `"space":{"version":"1","params":[{"name":"a","doc":"","values":[1,2],"default":1}]},"control":{"a":1}`
	for name, in := range map[string]string{
		"not JSON":         `x`,
		"a later schema":   `{"schema":2,` + ok + `,"samples":[]}`,
		"no schema":        `{` + ok + `,"samples":[]}`,
		"unknown field":    `{"schema":1,` + ok + `,"samples":[],"more":1}`,
		"empty parameter":  `{"schema":1,"space":{"version":"1","params":[{"name":"","doc":"","values":[1],"default":1}]},"control":{},"samples":[]}`,
		"zero cost":        `{"schema":1,` + ok + `,"samples":[{"block":0,"control":true}]}`,
		"negative cost":    `{"schema":1,` + ok + `,"samples":[{"block":0,"config":{"a":1},"cost":-1}]}`,
		"negative block":   `{"schema":1,` + ok + `,"samples":[{"block":-1,"control":true,"cost":1}]}`,
		"not a member":     `{"schema":1,` + ok + `,"samples":[{"block":0,"config":{"a":3},"cost":1}]}`,
		"both":             `{"schema":1,` + ok + `,"samples":[{"block":0,"config":{"a":1},"control":true,"cost":1}]}`,
		"failure and cost": `{"schema":1,` + ok + `,"samples":[{"block":0,"config":{"a":1},"cost":1,"failure":"x"}]}`,
		"marked value":     `{"schema":1,` + ok + `,"samples":[{"block":0,"control":true,"cost":1,"disturbed":"x"}]}`,
	} {
		if _, err := Decode(strings.NewReader(in)); !errors.Is(err, ErrRecording) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rec, err := Decode(strings.NewReader(`{"schema":1,` + ok + `,"samples":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSource(rec, 1, 1, 1); !errors.Is(err, ErrRecording) {
		t.Errorf("a recording without the control plays: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	if b, err := os.ReadFile(filepath.Join("testdata", "v1.json")); err == nil {
		f.Add(b)
	}
	f.Add([]byte(`{"schema":1,"space":{"version":"1","params":[{"name":"a","doc":"","values":[1,2],"default":1}]},"control":{"a":1},"samples":[{"block":0,"control":true,"cost":1},{"block":0,"config":{"a":2},"cost":2},{"block":1,"disturbed":"x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := Decode(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := rec.Encode(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(&out); err != nil {
			t.Fatalf("its own encoding is refused: %v", err)
		}
		src, err := NewSource(rec, 20, 1, 1)
		if err != nil {
			return
		}
		if _, err := src.Measure([]kernel.Config{rec.Control, rec.Space.Default()}, []int{1, 0}); err != nil {
			t.Fatal(err)
		}
	})
}
