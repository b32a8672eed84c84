package session

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/tuner/measure"
)

var (
	narrow = kernel.Layout{Lanes: 16, Cols: 1}
	broad  = kernel.Layout{Lanes: 16, Cols: 2}
)

func TestLayoutsAreJudgedByBothPhases(t *testing.T) {
	for name, c := range map[string]struct {
		decode, prefill []float64
		objective       string
		out             string
		why             string // "" for a win
	}{
		"both gain":               {[]float64{.03, .031, .029}, []float64{.02, .022, .021}, "both", "", ""},
		"one gains, one is even":  {[]float64{.03, .031, .029}, []float64{-.001, .001, .0005}, "both", "", ""},
		"one gains, one loses":    {[]float64{.09, .091, .089}, []float64{-.02, -.021, -.022}, "both", "", "slower at M=512"},
		"clearly slower, a bit":   {[]float64{.09, .091, .089}, []float64{-.004, -.0041, -.0042}, "both", "", "slower at M=512"},
		"nothing":                 {[]float64{.001, -.001, .0}, []float64{-.001, .001, .0005}, "both", "", "no gain"},
		"a gain within the noise": {[]float64{.05, -.03, .04}, []float64{.0, .0, .001}, "both", "", "no gain"},
		"too few pairs":           {[]float64{.05, .05}, []float64{.05, .05}, "both", "", "budget"},
		"given up":                {[]float64{-.05}, []float64{-.05}, "both", "slower in its first pairs", "slower in its first pairs"},
		"prefill is no objective": {[]float64{.001, 0, -.001}, []float64{.05, .05, .051}, "decode", "", "no gain"},
		"but must not lose":       {[]float64{.05, .05, .051}, []float64{-.05, -.05, -.051}, "decode", "", "slower at M=512"},
		"one row only":            {[]float64{.05, .05, .051}, nil, "both", "", ""},
	} {
		u := testTune(t)
		u.asked[phasePrefill] = c.objective == "both"
		x := &layoutTrial{class: u.classes[0], from: narrow, to: broad, gains: map[int][]float64{1: c.decode}, out: c.out,
			other: map[int]kernel.Choice{}}
		if c.prefill != nil {
			x.gains[512] = c.prefill
		}
		joint, why := u.judgeLayout(x)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) || (why == "") != (joint > 0) {
			t.Errorf("%s: %g, %q", name, joint, why)
		}
	}
}

// Of a class's layouts that gain one is taken, the best: only it is a finalist, and what was found for the
// layout of before is none any more.
func TestOnlyTheLayoutTakenIsAFinalist(t *testing.T) {
	u := testTune(t)
	u.asked[phasePrefill] = true
	trial := func(to kernel.Layout, gain float64) *layoutTrial {
		g := []float64{gain, gain + .001, gain - .001}
		return &layoutTrial{class: u.classes[0], from: narrow, to: to, gains: map[int][]float64{1: g, 512: g}, other: map[int]kernel.Choice{1: {}, 512: {}}}
	}
	best := &search.Result{Score: 0.1, Blocks: 3}
	u.note(u.classes[0], u.variant(t, 1), best, pointID{u.classes[0].Key(), 1}, true)
	u.note(u.classes[1], u.variant(t, 1), best, pointID{u.classes[1].Key(), 1}, true)
	four := kernel.Layout{Lanes: 16, Cols: 4}
	for _, x := range []*layoutTrial{trial(broad, .03), trial(four, .05), trial(kernel.Layout{Lanes: 16, Cols: 8}, .01)} {
		u.noteLayouts([]*layoutTrial{x}, "")
	}
	if u.layouts[u.classes[0].Key()] != four {
		t.Fatalf("took %v", u.layouts)
	}
	for _, v := range u.res.Verdicts {
		other := strings.HasPrefix(v.Problem, u.classes[1].String())
		if want := other || strings.HasSuffix(v.Problem, four.String()); v.Finalist != want || !want && v.Why == "" {
			t.Errorf("%s: finalist %t, %q", v.Problem, v.Finalist, v.Why)
		}
	}
}

// halves in turn, neighbours apart, no more than fit.
func TestLayersOfATrial(t *testing.T) {
	c := model.Class{Layers: []int{3, 5, 7, 9, 11}}
	for n, want := range map[int][2]int{2: {1, 1}, 3: {1, 1}, 5: {2, 2}, 99: {2, 2}} {
		x := &layoutTrial{class: c}
		x.deal(n)
		if len(x.halves[0]) != want[0] || len(x.halves[1]) != want[1] || x.single() {
			t.Errorf("%d fit: %v", n, x.halves)
		}
	}
	x := &layoutTrial{class: model.Class{Role: "head"}}
	if x.deal(1); !x.single() {
		t.Error("the head has one matrix")
	}
}

// A layout that wins one phase and loses the other is taken back; one that stands brings its choices
// of both phases, and nothing of the layout before.
func TestPublishedLayouts(t *testing.T) {
	win := measure.Verdict{Decision: measure.Winner, Ratio: measure.Ratio{Median: 1.2, Lo: 1.1, Hi: 1.3}}
	even := measure.Verdict{Decision: measure.NoWinner, Ratio: measure.Ratio{Median: 1, Lo: .99, Hi: 1.01}}
	lose := measure.Verdict{Decision: measure.NoWinner, Ratio: measure.Ratio{Median: .8, Lo: .7, Hi: .9}}
	for name, c := range map[string]struct {
		decode, prefill measure.Verdict
		want            kernel.Layout
	}{"one wins": {win, even, broad}, "one loses": {win, lose, narrow}, "none wins": {even, even, narrow}} {
		u := testTune(t)
		u.Prefill, u.asked[phasePrefill] = true, true
		class := u.classes[0]
		x := &layoutTrial{class: class, from: narrow, to: broad, other: map[int]kernel.Choice{}, gains: map[int][]float64{}}
		for _, m := range []int{1, 512} {
			ch, err := u.Suite.Default(t.Context(), class.Problem(model.W4A8, m, broad))
			if err != nil {
				t.Fatal(err)
			}
			x.other[m], x.gains[m] = ch, []float64{.1, .1, .1}
		}
		u.best[pointID{class.Key(), 16}] = screened{Choice: kernel.Choice{Problem: class.Problem(model.W4A8, 16, narrow)}, Sure: 1}
		u.takeLayout(x, .2)
		u.tuned = u.lab.plan.with(u.finalists(), u.tunedLayouts())
		for _, p := range []*planner{u.lab.plan, u.tuned} { // as engines ask while they load
			for _, c := range u.classes {
				l, err := p.Layout(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range kernel.MPoints {
					if _, err := p.Choice(t.Context(), c.Problem(model.W4A8, m, l)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		conf := confirmation{decode: judged{Verdict: c.decode}, prefill: judged{Verdict: c.prefill}}
		u.vetoLayouts(&conf)
		arm := u.finalArm(t.Context(), conf, kernel.Arm{})
		seen := 0
		for _, ch := range arm.Choices {
			if holds(class, ch.Problem) {
				seen++
				if ch.Problem.Layout != c.want {
					t.Errorf("%s: %s", name, ch.Problem)
				}
			}
		}
		if seen != len(kernel.MPoints) {
			t.Errorf("%s: %d choices of %s", name, seen, class)
		}
		if l, _ := u.finalLayout(t.Context(), conf, class); l != c.want {
			t.Errorf("%s: %s", name, l)
		}
	}
}

// What does not fit is refused and said.
func TestLayoutsWithinMemory(t *testing.T) {
	u := tinyTune(t, func(o *Options) { o.Memory = spare + 1<<10 })
	if err := u.screenLayouts(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if len(u.res.Verdicts) == 0 || u.lab.r != nil {
		t.Errorf("%d verdicts", len(u.res.Verdicts))
	}
	for _, v := range u.res.Verdicts {
		if !strings.Contains(v.Why, "no room") || !math.IsInf(v.Ratio.Hi, 1) {
			t.Errorf("%+v", v)
		}
	}
	u = tinyTune(t, nil)
	if err := u.screenLayouts(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, v := range u.res.Verdicts {
		if v.Why != measure.WhyBudget {
			t.Errorf("%+v", v)
		}
	}
}

// A layout whose kernels crash ends its own trial, not the tune.
func TestLayoutThatCrashes(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("machine code of amd64")
	}
	u := tinyTune(t, func(o *Options) {
		b := o.Suite.Backends["generic"]
		o.Suite.Backends = map[string]kernel.Backend{"generic": wrapped{b, func(a *kernel.Artifact) *kernel.Artifact {
			if a.Key.Problem.Op == kernel.OpLinear && a.Key.Problem.Layout == broad && a.Key.Problem.N == 512 {
				code(0x0f, 0x0b)(a)
			}
			return a
		}}}
	})
	err := u.screenLayouts(t.Context(), time.Now().Add(20*time.Second))
	if err != nil && !errors.Is(err, errNoDefault) {
		t.Fatal(err)
	}
	if err != nil || len(u.lab.laid) > 0 {
		t.Errorf("%v, %d matrices left in another layout", err, len(u.lab.laid))
	}
}

// What no confirmation runs is a finalist only if its gain is sure.
func TestUnsureGainIsNoFinalist(t *testing.T) {
	for _, c := range []struct {
		m    int
		sure float64
		want bool
	}{{1, 0, true}, {512, 0, true}, {4, 0, false}, {4, 0.02, false}, {4, 0.05, true}, {64, -0.1, false}} {
		u := testTune(t)
		id := pointID{u.classes[0].Key(), c.m}
		u.note(u.classes[0], u.variant(t, c.m), &search.Result{Config: kernel.Config{"x": 1}, Score: 0.06, Sure: c.sure, Blocks: 5}, id, true)
		v := u.res.Verdicts[0]
		if _, taken := u.best[id]; v.Finalist != c.want || taken != c.want || u.changed() != c.want || strings.Contains(v.Why, "default stays") == c.want {
			t.Errorf("m %d, sure of %g: finalist %t, taken %t, %q", c.m, c.sure, v.Finalist, taken, v.Why)
		}
	}
}
