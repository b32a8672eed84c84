package grid

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/tuner/measure"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var worked int64 = 128

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

func spec(t *testing.T) *Spec {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "spec.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := ParseSpec(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// results makes a grid: one arm saves memory, one is not connected, one crashes but for one pass.
func results(s *Spec, sigma float64) []Result {
	rng := rand.New(rand.NewPCG(1, 1))
	var out []Result
	for pass := 1; pass <= s.Passes; pass++ {
		for _, arm := range s.Order(pass) {
			noise := math.Exp(sigma * rng.NormFloat64())
			r := Result{Pass: pass, Arm: arm, Work: &worked, Evidence: map[string]string{"kv_bytes": "1073741824"}}
			rate, rss := 70.0, 3.2e9
			switch arm {
			case "kv 192 MiB":
				rate, rss, r.Evidence = 69.8, 2.4e9, map[string]string{"kv_bytes": "201326592"}
			case "other engine":
				rate, rss, r.Evidence = 105, 3e9, map[string]string{"build": "b1234"}
				if pass != 2 {
					r.Failure = &measure.Failure{Class: "signal", Signal: "SIGSEGV", Stderr: "ggml: cannot open model"}
				}
			}
			r.Values = map[string]float64{"tg_ts": math.Round(rate*noise*1000) / 1000, "rss_anon_settled": math.Round(rss * (1 + 0.001*rng.Float64()))}
			out = append(out, r)
		}
	}
	return out
}

func TestReport(t *testing.T) {
	s := spec(t)
	prov := Provenance{Build: "abc123", Host: "h0", CPU: "test CPU", Threads: 2, Model: "m0", Started: "2026-01-02T03:04:05Z"}
	r, err := Build(s, results(s, 0.004), map[int]string{4: "steal 12%"}, prov)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", []byte(r.Text()))
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", append(b, '\n'))
	if r.Metrics[1].Choice.Arm != "kv 192 MiB" || r.Metrics[1].Choice.Decision != measure.Winner {
		t.Errorf("memory: %+v", r.Metrics[1].Choice)
	}
	if r.Metrics[0].Choice.Decision == measure.Winner {
		t.Errorf("rate: %+v", r.Metrics[0].Choice)
	}
	if len(r.Failures) != 4 || r.Refused() {
		t.Errorf("%d failures, refused %t", len(r.Failures), r.Refused())
	}
}

func TestNoisyHostIsRefused(t *testing.T) {
	s := spec(t)
	r, err := Build(s, results(s, 0.4), nil, Provenance{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Refused() || r.Metrics[0].Ranking.Refused == "" || r.Metrics[0].Choice.Decision == measure.Winner {
		t.Errorf("%s", r.Text())
	}
}

func TestNoEvidenceIsANote(t *testing.T) {
	s := spec(t)
	res := results(s, 0.004)
	for i := range res {
		res[i].Evidence = nil
		delete(res[i].Values, "tg_ts")
	}
	r, err := Build(s, res, nil, Provenance{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) != 0 || len(r.Notes) == 0 {
		t.Errorf("findings %v, notes %v", r.Findings, r.Notes)
	}
	if f := r.Failures[0]; f.Class != "output" || !strings.Contains(f.Stderr, "tg_ts") {
		t.Errorf("a metric that is missing from the output left no failure: %v", f)
	}
}

func TestCheck(t *testing.T) {
	s := spec(t)
	base, err := Build(s, results(s, 0.004), nil, Provenance{})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(base.Expectations()); err != nil {
		t.Fatal(err)
	}
	e, err := ParseExpectations(&buf)
	if err != nil {
		t.Fatal(err)
	}
	delete(e.Metrics["tg_ts"], "other engine") // one pass is not a baseline
	delete(e.Metrics["rss_anon_settled"], "other engine")
	if c := base.Check(e); c.Failed {
		t.Errorf("a report does not meet itself:\n%s", c.Text())
	}

	// What is worse by half again what the host can resolve is a regression, what is within it is not.
	for _, row := range base.Metrics[0].Ranking.Rows {
		x := e.Metrics["tg_ts"][row.Arm]
		if x.Median == 0 {
			continue
		}
		band := base.gate("tg_ts", row.Arm, x).Band
		for state, by := range map[string]float64{Held: 0.8, Regressed: 1.5} {
			was := Expectancy{row.Median / (1 - by*band), x.Spread}
			if g := base.gate("tg_ts", row.Arm, was); g.State != state {
				t.Errorf("%s, worse by %.1f bands: %+v", row.Arm, by, g)
			}
		}
	}

	res := results(s, 0.004)
	for i := range res {
		switch res[i].Arm {
		case "default", AA: // one of them alone would be a host that cannot judge
			res[i].Values["rss_anon_settled"] = math.Round(res[i].Values["rss_anon_settled"] * 1.1)
		case "spin":
			res[i].Values["tg_ts"] *= 1.2
		}
	}
	now, err := Build(s, res, nil, Provenance{})
	if err != nil {
		t.Fatal(err)
	}
	c := now.Check(e)
	golden(t, "check.txt", []byte(c.Text()))
	state := map[string]string{}
	for _, g := range c.Gates {
		state[g.Metric+"/"+g.Arm] = g.State
	}
	if !c.Failed || state["rss_anon_settled/default"] != Regressed || state["tg_ts/spin"] != Improved {
		t.Errorf("%v", state)
	}

	noisy, err := Build(s, results(s, 0.2), nil, Provenance{})
	if err != nil {
		t.Fatal(err)
	}
	if c := noisy.Check(e); len(c.Ungateable) != 1 || c.Ungateable[0] != "tg_ts" {
		t.Errorf("ungateable: %v", c.Ungateable)
	}
	e.Metrics["gone"] = map[string]Expectancy{"default": {1, 0}}
	if c := base.Check(e); !c.Failed {
		t.Error("a metric that vanished passed the check")
	}
}

func TestOrderRotates(t *testing.T) {
	s := spec(t)
	first := map[string]bool{}
	n := len(s.Order(1))
	for p := 1; p <= n; p++ {
		first[s.Order(p)[0]] = true
	}
	if len(first) != n || n != len(s.Arms)+1 || s.Order(1)[0] != s.Control {
		t.Errorf("first places: %v", first)
	}
}

func TestSpecRefused(t *testing.T) {
	good, err := os.ReadFile(filepath.Join("testdata", "spec.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"mistyped knob":      {`"engine": {"spin-us"`, `"engin": {"spin-us"`},
		"unknown control":    {`"control": "default"`, `"control": "x"`},
		"two passes":         {`"passes": 5`, `"passes": 2`},
		"no direction":       {`"better": "lower"`, `"better": "small"`},
		"VmRSS":              {`rss_anon_settled`, `VmRSS`},
		"duplicate arm":      {`"name": "spin"`, `"name": "default"`},
		"reserved name":      {`"name": "spin"`, `"name": "control (A/A)"`},
		"nothing to run":     {`"engine": {"spin-us": "200"}`, `"env": {}`},
		"later schema":       {`"schema": 1`, `"schema": 2`},
		"negative timeout":   {`"timeout_s": 60`, `"timeout_s": -1`},
		"endless timeout":    {`"timeout_s": 60`, `"timeout_s": 1e300`},
		"two documents":      {"60}\n  ]\n}", "60}\n  ]\n} {}"},
		"no metrics":         {`"metrics"`, `"margin": 0.01, "metricz"`},
		"margin of 200%":     {`"passes": 5`, `"margin": 2`},
		"engine and command": {`"command": [`, `"engine": {"a": "b"}, "command": [`},
	} {
		bad := strings.Replace(string(good), edit[0], edit[1], 1)
		if bad == string(good) {
			t.Fatalf("%s: nothing was edited", name)
		}
		if _, err := ParseSpec(strings.NewReader(bad)); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	if b, err := os.ReadFile(filepath.Join("testdata", "spec.json")); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSpec(bytes.NewReader(b))
		if err != nil {
			return
		}
		if got := len(s.Order(1)); got != len(s.Arms)+1 {
			t.Fatalf("%d arms in an order, want %d", got, len(s.Arms)+1)
		}
		if _, err := Build(s, nil, nil, Provenance{}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseExpectations(f *testing.F) {
	f.Add([]byte(`{"schema":1,"metrics":{"tg_ts":{"default":{"median":70,"spread":0.01}}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := ParseExpectations(bytes.NewReader(b)); err == nil {
			(&Report{}).Check(e)
		}
	})
}
