// Package insitu compares candidates inside one forward step. A step runs many layers of the same
// shape: different layers carry different candidates and the assignment rotates, so that arms are
// compared within the same milliseconds, with real and cold weights. Several classes of tensors are
// searched at once: each step serves one block of every search that is waiting.
package insitu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
	"github.com/tilewright/tilewright/search/stat"
)

// Class is a set of layers whose tensor has the same shape, format and layout. A class of one layer
// (the head) alternates by step instead of rotating over layers.
type Class struct {
	Name   string
	Layers []int
}

// Assignment says which configuration each layer of a class runs in one step.
type Assignment struct {
	Class  string
	Config []kernel.Config // parallel to Class.Layers
}

// Timing is what a step measured of one class: the seconds of each layer, parallel to Class.Layers.
type Timing struct {
	Class   string
	Seconds []float64
	Failed  map[int]string // index of a layer -> why its configuration failed
}

// Stepper runs one forward step with the given assignments. disturbed, if not empty, says why the
// step counts for nobody.
type Stepper interface {
	Step(ctx context.Context, as []Assignment) (ts []Timing, disturbed string, err error)
}

// Search is one class and the search that runs over it.
type Search struct {
	Class Class
	// Run drives the search against src until it is done.
	Run func(src search.Source) error
}

// Run runs the searches side by side: whenever every search that is still running waits for a block,
// one round of steps serves them all. It returns the first error of the stepper, else of a search.
// ErrBudget from more (called before each round) ends all searches, which is success.
func Run(ctx context.Context, st Stepper, searches []Search, more func() error) error {
	c := &conductor{events: make(chan event)}
	for i, s := range searches {
		src := &source{c: c, class: s.Class, reply: make(chan answer, 1)}
		go func() {
			err := s.Run(src)
			c.events <- event{search: i, done: true, err: err}
		}()
	}
	return c.conduct(ctx, st, len(searches), more)
}

type event struct {
	search int
	src    *source
	req    request
	done   bool
	err    error
}

type request struct {
	arms  []kernel.Config
	order []int
}

type answer struct {
	block search.Block
	err   error
}

type conductor struct{ events chan event }

func (c *conductor) conduct(ctx context.Context, st Stepper, running int, more func() error) error {
	var first error
	var waiting []event
	for running > 0 {
		e := <-c.events
		if e.done {
			running--
			if e.err != nil && !errors.Is(e.err, search.ErrBudget) && first == nil {
				first = e.err
			}
		} else {
			waiting = append(waiting, e)
		}
		if running == 0 || len(waiting) < running {
			continue
		}
		var stop error
		switch {
		case first != nil:
			stop = first
		case ctx.Err() != nil:
			stop = ctx.Err()
		default:
			stop = more()
		}
		if stop == nil {
			if stop = c.round(ctx, st, waiting); stop != nil && first == nil {
				first = stop
			}
		}
		if stop != nil {
			for _, w := range waiting {
				w.src.reply <- answer{err: stop}
			}
		}
		waiting = waiting[:0]
	}
	if first == nil {
		first = ctx.Err()
	}
	return first
}

// round runs enough steps that each waiting search measured every arm of its block at least once.
func (c *conductor) round(ctx context.Context, st Stepper, waiting []event) error {
	sort.Slice(waiting, func(i, j int) bool { return waiting[i].src.class.Name < waiting[j].src.class.Name })
	steps := 1
	for _, w := range waiting {
		steps = max(steps, (len(w.req.order)+len(w.src.class.Layers)-1)/len(w.src.class.Layers))
	}
	tallies := make([]*tally, len(waiting))
	for i, w := range waiting {
		tallies[i] = newTally(w.req)
	}
	for range steps {
		as := make([]Assignment, len(waiting))
		for i, w := range waiting {
			as[i] = w.src.assign(w.req)
		}
		ts, disturbed, err := st.Step(ctx, as)
		if err != nil {
			return err
		}
		for i, w := range waiting {
			t, ok := find(ts, w.src.class.Name)
			if !ok || len(t.Seconds) != len(w.src.class.Layers) {
				return fmt.Errorf("in-situ step: no timing of class %s for %d layers", w.src.class.Name, len(w.src.class.Layers))
			}
			if impossible(t.Seconds) {
				return fmt.Errorf("in-situ step: class %s has a layer that took no time: %v", w.src.class.Name, t.Seconds)
			}
			tallies[i].add(w.src.last, w.src.centre(t.Seconds, len(w.req.order), disturbed), t.Failed, disturbed)
		}
	}
	for i, w := range waiting {
		w.src.reply <- answer{block: tallies[i].block()}
	}
	return nil
}

func impossible(seconds []float64) bool {
	for _, s := range seconds {
		if !(s > 0) || math.IsInf(s, 0) {
			return true
		}
	}
	return false
}

func find(ts []Timing, class string) (Timing, bool) {
	for _, t := range ts {
		if t.Class == class {
			return t, true
		}
	}
	return Timing{}, false
}

// source is the search.Source of one class.
type source struct {
	c     *conductor
	class Class
	turn  int       // rotates the assignment from step to step
	last  []int     // arm of each layer in the step under way
	level []float64 // sum over the steps of the ln seconds of each layer
	steps int
	reply chan answer
}

// centre returns ln seconds less what the layer itself costs more or less than the others: layers of
// one shape may lie in better or worse memory. A layer's level is its mean over the steps before this
// one, and counts once every arm has been round: then it holds all arms alike, and cancels.
func (s *source) centre(seconds []float64, arms int, disturbed string) []float64 {
	if s.level == nil {
		s.level = make([]float64, len(seconds))
	}
	out, mean := make([]float64, len(seconds)), 0.0
	for _, l := range s.level {
		mean += l / float64(len(seconds))
	}
	for i, x := range seconds {
		out[i] = math.Log(x)
		if s.steps >= arms {
			out[i] -= (s.level[i] - mean) / float64(s.steps)
		}
	}
	if disturbed == "" {
		s.steps++
		for i, x := range seconds {
			s.level[i] += math.Log(x)
		}
	}
	return out
}

// Measure asks for a block and waits for the round that serves it.
func (s *source) Measure(arms []kernel.Config, order []int) (search.Block, error) {
	s.c.events <- event{src: s, req: request{arms, order}}
	a := <-s.reply
	return a.block, a.err
}

// assign deals the arms of a block over the layers, going on where the last step stopped, so that
// over the steps every arm visits every layer.
func (s *source) assign(r request) Assignment {
	n, l := len(r.order), len(s.class.Layers)
	a := Assignment{Class: s.class.Name, Config: make([]kernel.Config, l)}
	s.last = make([]int, l)
	for i := range l {
		s.last[i] = r.order[(s.turn+i)%n]
		a.Config[i] = r.arms[s.last[i]]
	}
	s.turn += l
	if l%n == 0 {
		s.turn++ // else every layer would keep its arm
	}
	return a
}

// tally finds the centre of the ln seconds of a block by arm.
type tally struct {
	values    [][]float64
	failures  map[int]string
	disturbed string
}

func newTally(r request) *tally {
	return &tally{values: make([][]float64, len(r.arms)), failures: map[int]string{}}
}

func (t *tally) add(arms []int, ln []float64, failed map[int]string, disturbed string) {
	if disturbed != "" {
		t.disturbed = disturbed
	}
	for i, arm := range arms {
		if why := failed[i]; why != "" {
			t.failures[arm] = why
			continue
		}
		t.values[arm] = append(t.values[arm], ln[i])
	}
}

func (t *tally) block() search.Block {
	for a := range t.failures {
		t.values[a] = nil
	}
	b := search.Block{Costs: stat.Centres(t.values), Samples: make([]int, len(t.values)), Failures: t.failures, Disturbed: t.disturbed}
	for a, x := range b.Costs {
		b.Costs[a] = math.Exp(x) // NaN where there is none
		b.Samples[a] = len(t.values[a])
	}
	return b
}
