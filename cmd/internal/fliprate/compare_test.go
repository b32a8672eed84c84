package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The recorded outputs are of real tunes, cut to what is compared, and of edits of them.
func TestRecordedRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/run*.json")
	if err != nil || len(files) < 2 {
		t.Fatal(err, files)
	}
	runs, err := read(files)
	if err != nil {
		t.Fatal(err)
	}
	got := Compare(append(runs, Run{Refused: "noise"})).Text()
	if *update {
		if err := os.WriteFile("testdata/text.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/text.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("text.golden differs; run with -update if that is meant. Got:\n%s", got)
	}
}

// verdict is a whole-phase verdict with an interval, and its arm as a finalist.
func verdict(decision string, lo, hi float64, config int64) Run {
	mid := (lo + hi) / 2
	v := Verdict{Phase: "decode", Weights: "w4a8", Problem: whole, Decision: decision}
	v.Ratio.Median, v.Ratio.Lo, v.Ratio.Hi = &mid, &lo, &hi
	f := Verdict{Phase: "decode", Weights: "w4a8", Problem: "down m1", Finalist: true, Config: map[string]int64{"ku": config}}
	return Run{Verdicts: []Verdict{f, v}, Kept: 6, Dropped: 1, Blocks: []Stage{{"confirm", Kept{3, 4}}}}
}

func TestFlips(t *testing.T) {
	for _, c := range []struct {
		name          string
		a, b          Run
		flips, differ int
	}{
		{"the same winner", verdict("winner", 1.05, 1.1, 1), verdict("winner", 1.04, 1.09, 1), 0, 0},
		{"a winner and a tie", verdict("winner", 1.05, 1.1, 1), verdict("no winner", 0.99, 1.05, 1), 0, 0},
		{"two ties", verdict("no winner", 0.9, 1.1, 1), verdict("no winner", 0.99, 1.05, 2), 0, 0},
		{"faster and slower", verdict("winner", 1.05, 1.1, 1), verdict("no winner", 0.9, 0.97, 1), 1, 0},
		{"another arm is slower", verdict("winner", 1.05, 1.1, 1), verdict("no winner", 0.9, 0.97, 2), 0, 0},
		{"other winners as good", verdict("winner", 1.05, 1.1, 1), verdict("winner", 1.06, 1.12, 2), 0, 1},
		{"other winners told apart", verdict("winner", 1.05, 1.1, 1), verdict("winner", 1.2, 1.3, 2), 1, 1},
	} {
		r := Compare([]Run{c.a, c.b})
		if len(r.Phases) != 1 || r.Phases[0].Flips != c.flips || r.Phases[0].Differ != c.differ || r.FlipRate != float64(c.flips) {
			t.Errorf("%s: %+v", c.name, r)
		}
		if r.Floor != (Kept{12, 14}) || r.Blocks[0].Kept != (Kept{6, 8}) {
			t.Errorf("%s: blocks %+v", c.name, r)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", `{"schema":2,"floor":{}}`, `{"schema":1}`} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// A tune that refused is a run without verdicts; one that failed ends the comparison.
func TestRepeat(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script, "sh"} }
	runs, err := repeat(t.Context(), flags{n: 2, stress: 0}, sh("echo the floor is too high >&2; exit 3"))
	if err != nil || len(runs) != 2 || !strings.Contains(runs[0].Refused, "floor") {
		t.Errorf("%+v, %v", runs, err)
	}
	runs, err = repeat(t.Context(), flags{n: 1, stress: -1, keep: t.TempDir()},
		sh(`echo "$@" | grep -q -- "--json --cache-dir /" && echo '{"schema":1,"floor":{"kept":6,"dropped":2},"verdicts":[]}'`))
	if err != nil || !slices.EqualFunc(runs, []Run{{Kept: 6, Dropped: 2}}, func(a, b Run) bool { return a.Kept == b.Kept && a.Dropped == b.Dropped }) {
		t.Errorf("%+v, %v", runs, err)
	}
	if _, err := repeat(t.Context(), flags{n: 1, stress: -1}, sh("echo oh no >&2; exit 1")); err == nil || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("%v", err)
	}
}
