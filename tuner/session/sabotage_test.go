package session

import (
	"errors"
	"flag"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/search/sim"
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

// tunes is how many simulated tunes of each kind the judge of planted arms is tried on: some for a test,
// hundreds for figures.
var tunes = flag.Int("tunes", 6, "simulated tunes of each kind, of the judge of planted arms")

// warming is a host of others' on which each turn is faster than the one before by 0.2%.
var warming = func() sim.Noise {
	n := sim.Cloud
	n.Name, n.Trend = "warming", -0.002
	return n
}()

// on has the jobs of a made-up machine take the time of a simulated one, of so many samples each: few for
// a small model. A process that follows itself finds a part of its weights in the cache.
func (h *fakeHost) on(n sim.Noise, samples int, seed uint64) {
	host, luck := sim.NewHost(n, seed), map[*fakeProcess]float64{}
	h.noise = map[string]float64{}
	h.job = func(p *fakeProcess) float64 {
		if luck[p] == 0 {
			luck[p] = host.Luck()
		}
		sum := 0.0
		for i := range samples {
			sum += host.Sample(int64(p.id.Start), 1, i)
		}
		return math.Log(luck[p] * sum / float64(samples))
	}
}

// trial is a kind of simulated tune: a host, what a turn holds, what the budget affords.
type trial struct {
	host    sim.Noise
	samples int
	pairs   int     // of fresh processes
	gain    float64 // of the tuned arm
	off     float64 // ln by which the twin is slower than what it is the twin of
}

// outcomes count what tunes of a kind came to.
type outcomes struct {
	refused, stood, winners, void int
	missed                        map[string]int // planted arms, by the last part of their names
}

// run tunes so often, from floor to verdict, in decode.
func (x trial) run(t *testing.T, u *tune, n int) outcomes {
	out := outcomes{missed: map[string]int{}}
	for i := range n {
		h := newFakeHost()
		h.gain[phaseDecode] = x.gain
		h.on(x.host, x.samples, uint64(i+1000*x.pairs+1))
		v := newTune(u.Options)
		v.classes, v.lab = u.classes, newLab(u.lab.plan, u.lab.watch, u.lab.load)
		h.take(t, v, time.Hour, 1)
		v.Prefill, v.asked[phasePrefill] = false, false
		p, err := h.start(t.Context(), v.lab.plan)
		if err != nil {
			t.Fatal(err)
		}
		f, err := v.phaseFloor(t.Context(), p, measure.DecodeRate, aa{test: bench.Test{Gen: 4, Depth: 128}, turns: 5, takes: time.Millisecond, share: shareFloor})
		if err != nil {
			t.Fatal(err)
		}
		if v.res.Floors[phaseDecode] = f; f.Level == measure.Refused {
			out.refused++
			continue
		}
		h.slowTwin(x.off)
		v.deadline = h.now.Add(reserve + time.Duration(x.pairs)*v.contestTakes(contest{decode: true, planted: make([]measure.Arm, 3)}))
		c, err := v.confirm(t.Context())
		switch {
		case errors.Is(err, measure.ErrVoid):
			out.void++
		case err != nil:
			t.Fatal(err)
		case c.carried < stat.MinPairs: // the third took longer than planned, and did not fit
			out.refused++
		case len(c.sabotage.Caught) != 3:
			t.Fatalf("%d pairs: %+v", x.pairs, c.sabotage)
		default:
			out.stood++
		}
		if c.decode.Decision == measure.Winner {
			out.winners++
		}
		for _, m := range c.sabotage.Missed {
			out.missed[strings.TrimPrefix(m.Arm, "planted/")]++
		}
	}
	t.Logf("%s, %d samples a turn, %d pairs, gain %.2f, twin off by %.2f: %+v", x.host.Name, x.samples, x.pairs, x.gain, x.off, out)
	return out
}

// slowTwin slows the turns of the twin, those of its process that follow the round's own one.
func (h *fakeHost) slowTwin(by float64) {
	job, turns := h.job, map[*fakeProcess]int{}
	h.job = func(p *fakeProcess) float64 {
		x := job(p)
		if b := h.benches[len(h.benches)-1]; p.tuned && b.Test.Gen > 0 {
			turns[p]++
			for i, r := range plantedRounds {
				if turns[p] == r+2+i {
					x += by
				}
			}
		}
		return x
	}
}

// On hosts of every kind that can be judged, whatever drifts, bursts and follows itself, chance alone voids
// at most one healthy tune in a hundred, also where turns are as short as those of a very small model: then
// the second of two turns of a process is the faster by what is left in the cache. A few tunes show that to
// a hundredth more.
func TestHealthyTunesStand(t *testing.T) {
	u := testTune(t)
	judged, void := 0, 0
	for _, host := range []sim.Noise{sim.Quiet, sim.Cloud, warming} {
		for _, samples := range []int{2, 8, 56} {
			for _, pairs := range []int{3, 5, 8} {
				h := host
				h.Trend /= float64(samples) // of a turn
				o := trial{host: h, samples: samples, pairs: pairs, gain: 1.1}.run(t, u, *tunes)
				judged, void = judged+o.stood+o.void, void+o.void
			}
		}
	}
	t.Logf("%d of %d void", void, judged)
	if judged < 24**tunes || void > judged/50 {
		t.Errorf("%d of %d healthy tunes are void", void, judged)
	}
}

// A twin that is told from its original where nothing else would hide it voids the tune.
func TestTwinThatDiffersVoids(t *testing.T) {
	u := testTune(t)
	for _, x := range []trial{{sim.Quiet, 56, 5, 1.1, 0.08}, {sim.Quiet, 56, 5, 1, -0.08}, {sim.Cloud, 56, 12, 1, 0.25}} {
		if o := x.run(t, u, 3**tunes); o.missed["twin"] < (o.stood+o.void)*8/10 || o.winners > o.stood {
			t.Errorf("%+v: %+v", x, o)
		}
	}
}
