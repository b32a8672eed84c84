package stat

import "math"

// Looks plans a comparison that may end early: it is looked at after every pair from First on, and
// ends at Last at the latest. Alpha, the two-sided error of the whole, is spent: an early look may
// take a fifth of it, shared equally, the last look has the rest (Bonferroni, so whatever the looks
// have in common). Where the comparison ends for want of time, which no value decides, that look is
// the last.
type Looks struct {
	Alpha       float64
	First, Last int // pairs
}

// Conf is the confidence of the interval at a look that may end the comparison early (last false), or
// of the last look.
func (l Looks) Conf(last bool) float64 {
	early := l.Last - l.First
	if early < 1 {
		return 1 - l.Alpha
	}
	if last {
		return 1 - l.Alpha*(1-earlyShare)
	}
	return 1 - l.Alpha*earlyShare/float64(early)
}

const earlyShare = 0.2

// Verdict of an early look.
type Verdict int

// What an early look can say.
const (
	GoOn Verdict = iota
	Won          // the lower bound is past the margin at the confidence of an early look
	Lost         // the upper bound is below the margin: more pairs would not make a winner
)

// Early looks at the gains so far. Giving up cannot make a false winner, so it takes 95% only.
func (l Looks) Early(gains []float64, margin float64) Verdict {
	lim := math.Log1p(margin)
	switch n := len(gains); {
	case n < l.First || n >= l.Last:
		return GoOn
	case CI(gains, l.Conf(false)).Lo > lim:
		return Won
	case CI(gains, 0.95).Hi < lim:
		return Lost
	}
	return GoOn
}
