package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
)

// Options of a Judge.
type Options struct {
	// Fresh demands that every sample's process serves one arm (and what is planted to run the same)
	// in one block only, as confirmation does: a process that was there before carries its state along.
	Fresh bool
	// Unproven accepts arms without evidence, where what runs is a stranger's command that shows
	// none; whoever sets it says so beside the result.
	Unproven bool
	// Conf is the confidence of verdicts, 0 for 0.95: higher where data were looked at before.
	Conf float64
}

// Judge holds the samples of one comparison and answers from them. The first arm is the control.
type Judge struct {
	arms    []Arm
	metrics map[string]Metric
	o       Options

	values    map[cell][]value
	blocks    map[int]bool
	disturbed map[int]string
	owner     map[[2]int64]slot // process -> what it served
	rejected  []Rejection
	failures  []Failure
}

type cell struct {
	metric, arm string
	block       int
}

type value struct {
	turn int
	x    float64
}

type slot struct {
	arm   string
	block int
}

// New starts a comparison of arms, the first of which is the control.
func New(arms []Arm, metrics []Metric, o Options) (*Judge, error) {
	j := &Judge{arms: arms, o: o, metrics: map[string]Metric{}, values: map[cell][]value{},
		blocks: map[int]bool{}, disturbed: map[int]string{}, owner: map[[2]int64]slot{}}
	if len(arms) == 0 {
		return nil, fmt.Errorf("measure: no arms; the first one is the control")
	}
	seen := map[string]bool{}
	for _, a := range arms {
		if a.Name == "" || seen[a.Name] {
			return nil, fmt.Errorf("measure: empty or duplicate arm %q", a.Name)
		}
		seen[a.Name] = true
	}
	for _, m := range metrics {
		if err := m.Validate(); err != nil {
			return nil, err
		}
		j.metrics[m.Name] = m
	}
	return j, nil
}

// SetConf sets the confidence of the verdicts that follow (stat.Looks).
func (j *Judge) SetConf(conf float64) { j.o.Conf = conf }

// Control is the name of the control arm.
func (j *Judge) Control() string { return j.arms[0].Name }

// Add takes a sample if it is possible and its receipt shows what was expected. Otherwise the
// rejection is recorded and returned as an error that wraps ErrImpossible or ErrReceipt.
func (j *Judge) Add(s Sample, e Expect) error {
	j.blocks[s.Block] = true
	err := j.check(s, e)
	if err != nil {
		j.rejected = append(j.rejected, Rejection{s, err.Error()})
		return fmt.Errorf("arm %s, block %d: %w", s.Arm, s.Block, err)
	}
	c := cell{s.Metric, s.Arm, s.Block}
	j.values[c] = append(j.values[c], value{s.Turn, s.Value})
	return nil
}

func (j *Judge) check(s Sample, e Expect) error {
	m, ok := j.metrics[s.Metric]
	if !ok {
		return fmt.Errorf("%w: metric %q was not declared", ErrImpossible, s.Metric)
	}
	arm, ok := j.arm(s.Arm)
	if !ok {
		return fmt.Errorf("%w: arm %q was not declared", ErrImpossible, s.Arm)
	}
	if err := e.Check(s.Receipt); err != nil {
		return err
	}
	if err := s.check(m); err != nil {
		return err
	}
	if j.o.Fresh {
		proc, here := [2]int64{int64(s.Receipt.PID), s.Receipt.Start}, slot{cmp.Or(arm.Serve, arm.Name), s.Block}
		if was, ok := j.owner[proc]; ok && was != here {
			return fmt.Errorf("%w: process %d is not fresh, it served arm %s in block %d", ErrReceipt, s.Receipt.PID, was.arm, was.block)
		}
		j.owner[proc] = here
	}
	return nil
}

func (j *Judge) arm(name string) (Arm, bool) {
	i := slices.IndexFunc(j.arms, func(a Arm) bool { return a.Name == name })
	if i < 0 {
		return Arm{}, false
	}
	return j.arms[i], true
}

// Fail records a run that gave no sample.
func (j *Judge) Fail(f Failure) {
	j.blocks[f.Block] = true
	j.failures = append(j.failures, f)
}

// Disturb voids a whole block for every arm, whatever its values: who decides must not look at them.
func (j *Judge) Disturb(block int, why string) {
	j.blocks[block] = true
	j.disturbed[block] = why
}

// Kept returns how many of the blocks seen were not disturbed: "kept k of n".
func (j *Judge) Kept() (kept, of int) { return len(j.blocks) - len(j.disturbed), len(j.blocks) }

// Failures, Rejections and Disturbed list what was set aside.
func (j *Judge) Failures() []Failure       { return j.failures }
func (j *Judge) Rejections() []Rejection   { return j.rejected }
func (j *Judge) Disturbed() map[int]string { return maps.Clone(j.disturbed) }

// Values lists an arm's values of a metric, one per kept block that has any, in block order: the
// median of a block's samples.
func (j *Judge) Values(metric, arm string) []float64 {
	var out []float64
	for _, b := range j.kept() {
		if v := j.values[cell{metric, arm, b}]; len(v) > 0 {
			out = append(out, middle(v))
		}
	}
	return out
}

// Gains lists the paired log-gains of arm over other, one per kept block that has both, in block
// order: positive where arm is better in the metric's own direction.
func (j *Judge) Gains(metric, arm, other string) []float64 {
	m := j.metrics[metric]
	var out []float64
	for _, b := range j.kept() {
		a, c := j.values[cell{metric, arm, b}], j.values[cell{metric, other, b}]
		if len(a) == 0 || len(c) == 0 {
			continue
		}
		if g := m.Gain(middle(a), middle(c)); !math.IsNaN(g) {
			out = append(out, g)
		}
	}
	return out
}

// Beside lists the paired log-gains of arm over other from the turns that both had, one per kept block
// that has any: the mean of its turns' gains. It compares like with like where one of them has more
// turns: the median of many is not what the mean of few is where turns scatter to one side, or where those
// that follow a turn of the same process are faster.
func (j *Judge) Beside(metric, arm, other string) []float64 {
	m := j.metrics[metric]
	var out []float64
	for _, b := range j.kept() {
		own, others := byTurn(j.values[cell{metric, arm, b}]), byTurn(j.values[cell{metric, other, b}])
		var gains []float64
		for _, turn := range slices.Sorted(maps.Keys(own)) {
			if o := others[turn]; len(o) > 0 {
				gains = append(gains, m.Gain(middle(own[turn]), middle(o)))
			}
		}
		if g := stat.Mean(gains); !math.IsNaN(g) {
			out = append(out, g)
		}
	}
	return out
}

func byTurn(vs []value) map[int][]value {
	out := map[int][]value{}
	for _, v := range vs {
		out[v.turn] = append(out[v.turn], v)
	}
	return out
}

// middle is the median of values.
func middle(vs []value) float64 {
	xs := make([]float64, len(vs))
	for i, v := range vs {
		xs[i] = v.x
	}
	return stat.Median(xs)
}

func (j *Judge) kept() []int {
	var out []int
	for _, b := range slices.Sorted(maps.Keys(j.blocks)) {
		if _, void := j.disturbed[b]; !void {
			out = append(out, b)
		}
	}
	return out
}
