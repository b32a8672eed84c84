package main

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/session"
)

func TestParseSizeAndAge(t *testing.T) {
	for s, want := range map[string]int64{"": 0, "1": 1, "12B": 12, "3K": 3 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q: %d %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"0", "-1", "MiB", "1TiBB", "1.5G", "9223372036854775807G", "1iB"} {
		if got, err := parseSize(s); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%q: %d %v, want a usage error", s, got, err)
		}
	}
	for s, want := range map[string]time.Duration{"": 0, "90m": 90 * time.Minute, "30d": 720 * time.Hour} {
		if got, err := parseAge(s); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"0", "-1h", "0d", "1w", "99999999d"} {
		if got, err := parseAge(s); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%q: %v %v, want a usage error", s, got, err)
		}
	}
}

func FuzzConfigAndProblem(f *testing.F) {
	f.Add("mr=1,nc=-4", `{"op":"scale"}`)
	f.Add(`{"mr":1}`, `{"op":"linear","format":{"bits":4}}`)
	f.Fuzz(func(t *testing.T, config, problem string) {
		if _, err := readConfig(config); err != nil && !errors.Is(err, cli.ErrUsage) {
			t.Errorf("config %q: %v is no usage error", config, err)
		}
		if _, err := readProblem("{" + problem); err != nil && !errors.Is(err, cli.ErrUsage) {
			t.Errorf("problem %q: %v is no usage error", problem, err)
		}
	})
}

func TestRangesAndSizes(t *testing.T) {
	for want, ids := range map[string][]int{"": nil, "3": {3}, "0-3,8": {0, 1, 2, 3, 8}, "1,3-4": {1, 3, 4}} {
		if got := ranges(ids); got != want {
			t.Errorf("%v: %q, want %q", ids, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1 << 30: "1 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Ratios that are unknown, unbounded or wild stay on the picture.
func TestRatiosStayOnTheAxis(t *testing.T) {
	var vs []session.Verdict
	for _, r := range []measure.Ratio{{Median: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1)}, {Median: 1, Lo: 0, Hi: math.Inf(1)},
		{Median: 1000, Lo: 1e-9, Hi: 1e9}, {Median: -1, Lo: -2, Hi: 0}} {
		vs = append(vs, session.Verdict{Ratio: r})
	}
	s := newScale(vs)
	for i, v := range vs {
		r := s.row(v, i)
		for _, x := range []float64{r.X, r.Lo, r.Lo + r.Width, s.One} {
			if !(x >= 0 && x <= axisWidth+1) {
				t.Errorf("%+v: %+v is off the axis", v.Ratio, r)
			}
		}
	}
	if len(s.Ticks) < 3 || !strings.Contains("0.125 0.25", s.Ticks[0].Label) {
		t.Errorf("ticks %+v", s.Ticks)
	}
}

func TestStartTime(t *testing.T) {
	stat := "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 3 1 0 0 20 0 1 0 1234 5678 9"
	if got, ok := startTime([]byte(stat)); !ok || got != 12340*time.Millisecond {
		t.Errorf("started %v after boot, %v", got, ok)
	}
	for _, s := range []string{"", "7 (a) S 1", strings.Replace(stat, "1234", "x", 1)} {
		if got, ok := startTime([]byte(s)); ok {
			t.Errorf("%q: %v", s, got)
		}
	}
	if age := time.Since(processStart()); age < 0 || age > time.Minute {
		t.Errorf("this process is %v old", age)
	}
}
