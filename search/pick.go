package search

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search/stat"
)

// Finalists is the number of leaders of a search that Pick races again.
const Finalists = 8

// finalTie is the log-ratio within which finalists are as good.
const finalTie = 0.005

// Pick drives a strategy as Run does and races its leaders on new data with what is left of the
// budget: what leads after a search leads partly by luck. The race is one of successive halving: each
// third of its time, of Left, the better half goes on. It returns the finalist that the strategy holds
// for the best when it knows the new data too, with the score, what is sure of it and the blocks of the
// new data alone; nil if either says that it is no better than the control. A race that the budget cuts
// short before its second block decides nothing, and the leader of all data is returned, with no blocks.
//
// Beside a strategy that weighs what it knows, the search runs the control once a block, the race of the
// leaders as often as ever: its score is what is reported, and nothing takes the control's error out of it.
func Pick(s Strategy, control kernel.Config, src Source, o RunOptions) (*Result, error) {
	run := o
	run.Race.Controls = controls(s, o.Race.Controls)
	if err := Run(s, control, src, run); err != nil {
		return nil, err
	}
	arms := []kernel.Config{control}
	for _, r := range s.Best(Finalists) {
		if r.Config.String() != control.String() && r.Score > 0 {
			arms = append(arms, r.Config)
		}
	}
	if len(arms) == 1 {
		return nil, nil
	}
	f := final{s: s, o: o, arms: arms[1:], new: map[string]*Result{}, gains: map[string][]float64{}}
	if err := f.race(arms, src); err != nil && !errors.Is(err, ErrBudget) {
		return nil, err
	}
	return f.best(), nil
}

const (
	finalBlocks = 40 // of the race of the finalists, at most
	leastFinal  = 5  // before it may end
	minFinal    = 2  // blocks below which it says nothing
	finalStages = 3
)

// final is the race of the finalists.
type final struct {
	s    Strategy
	o    RunOptions
	arms []kernel.Config
	new  map[string]*Result // what the race says, by configuration
	// gains are the log-speedups over the control in each block of the race, by configuration.
	gains map[string][]float64
}

// race runs the stages, half of the arms going on after each.
func (f *final) race(arms []kernel.Config, src Source) error {
	from := 1.0
	if f.o.Left != nil {
		from = f.o.Left()
	}
	for stage := 1; ; stage++ {
		o := f.o.Race
		o.MinBlocks, o.MaxBlocks, o.Keep, o.Tie, o.Seed = leastFinal, finalBlocks, 1, finalTie, o.Seed+uint64(stage)<<32
		timed := &until{Source: src, left: f.o.Left, end: from * (1 - float64(stage)/finalStages)}
		if stage == finalStages || f.o.Left == nil {
			timed.left = nil
		}
		r, err := compete(arms, timed, o)
		f.add(r.results(arms))
		for a, c := range arms[1:] {
			key := c.String()
			f.gains[key] = append(f.gains[key], r.paired(0, a+1)...)
		}
		if !errors.Is(err, errStage) {
			return err
		}
		if arms = f.half(arms); len(arms) < 3 {
			stage = finalStages - 1 // the last one takes the rest
		}
	}
}

// add takes what a stage says.
func (f *final) add(rs []Result) {
	f.s.Tell(rs)
	if f.o.Seen != nil && len(rs) > 0 {
		f.o.Seen(rs)
	}
	for _, r := range rs {
		key := r.Config.String()
		if old := f.new[key]; old != nil {
			old.merge(r)
			continue
		}
		f.new[key] = &r
	}
}

// Estimator is a strategy that weighs all that is known of a configuration: of how it led by luck, as
// much is left out as its repetitions do not make sure of. A strategy that wraps another passes it on.
type Estimator interface {
	Estimate(kernel.Config) (score float64, ok bool)
}

// controls is how often a block of a search runs the control beside a strategy. One that weighs what it knows
// finds the control's error from what all arms of a block have in common, so that once is enough, and
// the samples are worth more elsewhere; others have nothing but the ratio to the control: as many as
// were asked for.
func controls(s Strategy, asked int) int {
	if _, ok := s.(Estimator); ok && asked == 0 {
		return 1
	}
	return asked
}

// standing lists the finalists that are better than the control, best first: as the strategy knows them
// if it weighs what it knows, else by the new data alone.
func (f *final) standing() []*Result {
	type entry struct {
		r     *Result
		score float64
	}
	var all []entry
	weighs, _ := f.s.(Estimator)
	for _, c := range f.arms {
		r := f.new[c.String()]
		if r == nil || !r.usable() {
			continue
		}
		e := entry{r, r.Score}
		if weighs != nil {
			if score, ok := weighs.Estimate(c); ok {
				e.score = score
			}
		}
		if e.score > 0 {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.score, a.score) })
	var out []*Result
	for _, e := range all {
		out = append(out, e.r)
	}
	return out
}

// half is the control and the better half of the arms.
func (f *final) half(arms []kernel.Config) []kernel.Config {
	out := arms[:1:1]
	for _, r := range f.standing() {
		if len(out) <= len(arms)/2 {
			out = append(out, r.Config)
		}
	}
	return out
}

// best is the best finalist, nil if it is the control.
func (f *final) best() *Result {
	for _, r := range f.new {
		if r.Failure == "" && r.Blocks < minFinal {
			if top := f.s.Best(1); len(top) > 0 && top[0].Score > 0 {
				top[0].Blocks = 0 // of new data
				return &top[0]
			}
			return nil
		}
	}
	if all := f.standing(); len(all) > 0 && all[0].Score > 0 {
		all[0].Sure = Sure(f.gains[all[0].Config.String()])
		return all[0]
	}
	return nil
}

// sureOf is the confidence of what Sure says, one-sided.
const sureOf = 0.95

// Sure is the gain that paired log-ratios of blocks make sure of: a lower bound at 95%, 0 where there
// is none above or where fewer than three blocks say anything.
func Sure(gains []float64) float64 {
	if len(gains) < stat.MinPairs {
		return 0
	}
	return max(0, stat.CI(gains, 2*sureOf-1).Lo)
}

// errStage ends a stage of a race.
var errStage = errors.New("the time of the stage is over")

// until is a source that ends when the share of the budget that is left falls to end, but not before
// it gave as many blocks as say something.
type until struct {
	Source
	left func() float64 // nil for no end
	end  float64
	gave int
}

func (u *until) Measure(arms []kernel.Config, order []int) (Block, error) {
	if u.left != nil && u.gave >= minFinal && u.left() <= u.end {
		return Block{}, errStage
	}
	u.gave++
	return u.Source.Measure(arms, order)
}
