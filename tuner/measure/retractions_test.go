package measure

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tilewright/tilewright/search/sim"
	"github.com/tilewright/tilewright/search/stat"
)

// The five retractions: each test sets the trap that once looked like a result, shows that a naive
// reading falls into it, and that the judge does not.

// quietFloor is a floor that permits everything, so that refusals below have another cause.
var quietFloor = Floor{Noise: 0.002, Level: Normal, Kept: 20, Blocks: 11}

// ran is a sample whose receipt is in order, and what was expected of it.
func ran(arm string, block int, metric string, value float64) (Sample, Expect) {
	nonce := fmt.Sprintf("%s-%d-%s", arm, block, metric)
	pid := 1000 + len(nonce)*100 + block
	r := Receipt{Nonce: nonce, PID: pid, Start: int64(block + 1), Exe: "exe", Calls: map[string]int64{"art-" + arm: 28}, Bytes: 1 << 20}
	return Sample{Arm: arm, Block: block, Metric: metric, Value: value, Work: 128, Receipt: r},
		Expect{Nonce: nonce, PID: pid, Start: r.Start, Exe: "exe", Artifacts: []string{"art-" + arm}, Bytes: 1 << 20}
}

func mustAdd(t *testing.T, j *Judge, s Sample, e Expect) {
	t.Helper()
	if err := j.Add(s, e); err != nil {
		t.Fatal(err)
	}
}

func newJudge(t *testing.T, o Options, arms ...string) *Judge {
	t.Helper()
	var as []Arm
	for _, a := range arms {
		as = append(as, Arm{Name: a, Evidence: map[string]string{"artifact": "art-" + a}})
	}
	j, err := New(as, []Metric{DecodeRate, PrefillRate, CallTime, RssSettled}, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Order drift: the host slows down within every pass and recovers between passes, so the arm that
// always runs last looks slow. Interleaving in a fixed order keeps the bias; rotation removes it.
func TestRetractionArmOrderDrift(t *testing.T) {
	names := []string{"first", "second", "third", "fourth"}
	drift := sim.Noise{Sigma: 0.002, Trend: 0.02}
	grid := func(order func(pass int) []int) *Judge {
		j := newJudge(t, Options{}, names...)
		for pass := 1; pass <= 12; pass++ {
			h := sim.NewHost(drift, uint64(pass))
			for _, a := range order(pass) {
				s, e := ran(names[a], pass, CallTime.Name, h.Sample(int64(a+1), 100, 1))
				mustAdd(t, j, s, e)
			}
		}
		return j
	}
	fixed := grid(func(int) []int { return []int{3, 2, 1, 0} })
	if v := fixed.Verdict(CallTime.Name, "fourth", quietFloor, Margin); v.Decision != Winner {
		t.Fatalf("the trap is not set: %+v", v)
	}
	// A/A over the same fixed order exposes it: nothing is judged.
	floor := AAFloor(fixed.Gains(CallTime.Name, "fourth", "first"), 12, 0, 1)
	if floor.Level != Refused || !strings.Contains(floor.Why, "A/A failed") {
		t.Errorf("A/A of a fixed order passed: %+v", floor)
	}
	if v := fixed.Verdict(CallTime.Name, "fourth", floor, Margin); v.Decision == Winner {
		t.Errorf("a winner in spite of a failed A/A: %+v", v)
	}
	// The judge's own order: rotation.
	rotated := grid(func(pass int) []int { return stat.Rotate(len(names), pass) })
	for _, arm := range names[1:] {
		if v := rotated.Verdict(CallTime.Name, arm, quietFloor, Margin); v.Decision == Winner || math.Abs(v.Ratio.Median-1) > 0.02 {
			t.Errorf("rotated: %s at %.3f is a %s", arm, v.Ratio.Median, v.Decision)
		}
	}
	if r := rotated.Ranking(CallTime.Name); !strings.HasPrefix(r.Refused, NotARanking) {
		t.Errorf("equal arms were ranked: %+v", r)
	}
}

// The build is not what it says: the new format's arm ran the old head. It is 10% faster, and no
// sample of it counts.
func TestRetractionBuildIsNotWhatItSays(t *testing.T) {
	j := newJudge(t, Options{}, "bf16", "int4")
	for pass := range 5 {
		s, e := ran("bf16", pass, DecodeRate.Name, 70)
		mustAdd(t, j, s, e)
		s, e = ran("int4", pass, DecodeRate.Name, 77)
		s.Receipt.Calls["art-bf16"] = 1 // the head
		if err := j.Add(s, e); !errors.Is(err, ErrReceipt) || !strings.Contains(err.Error(), "art-bf16") {
			t.Fatalf("a sample that ran another arm's artifact was taken: %v", err)
		}
		s, e = ran("int4", pass, DecodeRate.Name, 77)
		delete(s.Receipt.Calls, "art-int4")
		if err := j.Add(s, e); !errors.Is(err, ErrReceipt) {
			t.Fatalf("a sample that never ran its artifact was taken: %v", err)
		}
		s, e = ran("int4", pass, DecodeRate.Name, 77)
		s.Receipt.Bytes /= 2
		if err := j.Add(s, e); !errors.Is(err, ErrReceipt) {
			t.Fatalf("a sample that streamed other bytes was taken: %v", err)
		}
	}
	if v := j.Verdict(DecodeRate.Name, "int4", quietFloor, Margin); v.Decision == Winner || v.Pairs != 0 {
		t.Errorf("%+v", v)
	}
	if len(j.Rejections()) != 15 {
		t.Errorf("%d rejections on record, want 15", len(j.Rejections()))
	}
}

// The wrong process: the benchmark read its own memory while the weights were in a worker.
func TestRetractionWrongProcessMeasured(t *testing.T) {
	j := newJudge(t, Options{}, "two layouts", "one layout")
	s, e := ran("one layout", 1, RssSettled.Name, 40<<20)
	worker := Process{PID: s.Receipt.PID + 1, Start: 9, RssAnon: 900 << 20}
	root := Process{PID: s.Receipt.PID, Start: s.Receipt.Start, RssAnon: 40 << 20}

	s.Receipt.Tree = []Process{root, worker} // the value is the root's alone
	if err := j.Add(s, e); !errors.Is(err, ErrReceipt) {
		t.Errorf("memory of one process of a tree was taken: %v", err)
	}
	s.Receipt.Tree = []Process{{PID: 1, Start: 1, RssAnon: 40 << 20}} // somebody else
	if err := j.Add(s, e); !errors.Is(err, ErrReceipt) {
		t.Errorf("memory of a stranger was taken: %v", err)
	}
	s.Receipt.Tree = []Process{{PID: root.PID, Start: root.Start + 5, RssAnon: 40 << 20}} // a recycled pid
	if err := j.Add(s, e); !errors.Is(err, ErrReceipt) {
		t.Errorf("memory of a recycled pid was taken: %v", err)
	}
	s.Receipt.Tree = []Process{root, worker}
	s.Value = float64(s.Receipt.TreeRssAnon())
	mustAdd(t, j, s, e)

	for what, spoil := range map[string]func(*Receipt){
		"nonce": func(r *Receipt) { r.Nonce = "other" }, "pid": func(r *Receipt) { r.PID++ },
		"start": func(r *Receipt) { r.Start++ }, "exe": func(r *Receipt) { r.Exe = "another build" },
	} {
		s, e := ran("one layout", 2, DecodeRate.Name, 70)
		spoil(&s.Receipt)
		if err := j.Add(s, e); !errors.Is(err, ErrReceipt) {
			t.Errorf("a receipt with another %s was taken: %v", what, err)
		}
	}
	for _, name := range []string{"VmRSS", "rss"} {
		if err := (Metric{Name: name, Better: Lower}).Validate(); err == nil {
			t.Errorf("%s was accepted as a measure of memory", name)
		}
	}
}

// The knob is not connected: both arms ran the same thing. Even when luck makes it faster it is
// inert, and never "no effect".
func TestRetractionKnobNotConnected(t *testing.T) {
	arms := []Arm{
		{Name: "kv 1 GiB", Evidence: map[string]string{"artifact": "a", "kv_bytes": "1073741824"}},
		{Name: "kv 192 MiB", Evidence: map[string]string{"artifact": "a", "kv_bytes": "1073741824"}},
		{Name: "no proof"},
	}
	j, err := New(arms, []Metric{DecodeRate}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for pass := range 8 {
		for i, a := range arms {
			s, e := ran(a.Name, pass, DecodeRate.Name, 70*(1+0.05*float64(i)))
			mustAdd(t, j, s, e)
		}
	}
	for _, a := range arms[1:] {
		if v := j.Verdict(DecodeRate.Name, a.Name, quietFloor, Margin); v.Decision == Winner || v.Why != WhyInert {
			t.Errorf("%s: %+v", a.Name, v)
		}
	}
	if f := j.Findings(); len(f) != 2 || f[0].Kind != Inert || f[1].Kind != Inert {
		t.Errorf("findings %+v", f)
	}
}

// One surviving pass: 1.5x in the only pass that did not crash.
func TestRetractionOneSurvivingPass(t *testing.T) {
	j := newJudge(t, Options{}, "default", "candidate")
	for pass := range 5 {
		s, e := ran("default", pass, PrefillRate.Name, 100)
		mustAdd(t, j, s, e)
		if pass == 3 {
			s, e = ran("candidate", pass, PrefillRate.Name, 150)
			mustAdd(t, j, s, e)
			continue
		}
		j.Fail(Failure{Arm: "candidate", Block: pass, Class: "signal", Signal: "SIGILL", Stderr: "illegal instruction"})
	}
	v := j.Verdict(PrefillRate.Name, "candidate", quietFloor, Margin)
	if v.Decision == Winner || v.Why == string(stat.Clear) {
		t.Errorf("%+v", v)
	}
	if r := j.Ranking(PrefillRate.Name); r.Refused != "single pass: not a result" {
		t.Errorf("ranked: %+v", r)
	}
	if f := j.Failures(); len(f) != 4 || !strings.Contains(f[0].String(), "SIGILL: illegal instruction") {
		t.Errorf("failures were lost: %v", f)
	}
	// Four of five passes are enough to be listed; an arm that failed once wins nothing all the same.
	j = newJudge(t, Options{}, "default", "candidate")
	for pass := range 5 {
		s, e := ran("default", pass, PrefillRate.Name, 100)
		mustAdd(t, j, s, e)
		if pass > 0 {
			s, e = ran("candidate", pass, PrefillRate.Name, 150)
			mustAdd(t, j, s, e)
		}
	}
	if v := j.Verdict(PrefillRate.Name, "candidate", quietFloor, Margin); v.Decision != Winner {
		t.Fatalf("the trap is not set: %+v", v)
	}
	j.Fail(Failure{Arm: "candidate", Block: 0, Class: "signal", Signal: "SIGILL"})
	if v := j.Verdict(PrefillRate.Name, "candidate", quietFloor, Margin); v.Decision == Winner || v.Why != WhyFailed {
		t.Errorf("%+v", v)
	}
	// Without the failures on record the reason is the pass itself, then the pair.
	j = newJudge(t, Options{}, "default", "candidate")
	for pass, why := range []stat.Reason{stat.SinglePass, stat.TooFew} {
		for arm, value := range map[string]float64{"default": 100, "candidate": 150} {
			s, e := ran(arm, pass, PrefillRate.Name, value)
			mustAdd(t, j, s, e)
		}
		if v := j.Verdict(PrefillRate.Name, "candidate", quietFloor, Margin); v.Decision == Winner || v.Why != string(why) {
			t.Errorf("after %d passes: %+v", pass+1, v)
		}
	}
}
