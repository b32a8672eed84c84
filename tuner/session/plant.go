package session

import (
	"github.com/tilewright/tilewright/search/stat"
	"github.com/tilewright/tilewright/tuner/measure"
)

// plantedRounds are the rounds of a duel's decode turns after which the planted arms have a turn, in
// the processes that are loaded anyway: one round of either order, so that they stand in the same
// ABBA neighbourhoods as the real arms, and each of those follows itself equally often.
var plantedRounds = [2]int{5, 10}

// plantTurns is the number of turns that planting adds to a round: inert and twin one each, slow two.
const plantTurns = 4

// plant adds the planted arms to the decode turns, if the time left allows three pairs with them, and
// says so if not.
func (t *tune) plant(c *confirmation, b *contest) error {
	with := *b
	with.planted = make([]measure.Arm, 3)
	switch {
	case !b.decode && !b.prefill:
		c.sabotage.Why = "nothing was planted: there was nothing to confirm"
		return nil
	case t.floorOf(phaseDecode).Level == measure.Refused:
		c.sabotage.Why = "nothing was planted: decode is too noisy to tell"
		return nil
	case t.left() < reserve+t.planned(with, 0):
		c.sabotage.Why = "nothing was planted: the time left does not allow it"
		return nil
	}
	arms, planted, err := measure.Plant(c.decode.arms)
	if err != nil {
		return err
	}
	b.planted, c.planted = arms[len(c.decode.arms):], planted
	return c.decode.open(arms)
}

// doubts reports whether a planted arm would be missed now: before that voids the tune more pairs are run,
// if there is time.
func (t *tune) doubts(c *confirmation, b contest) bool {
	t.sabotaged(c, b)
	return len(c.sabotage.Missed) > 0
}

// sabotaged asks which planted arms were caught, once as many pairs carried them as any result needs.
func (t *tune) sabotaged(c *confirmation, b contest) {
	s := measure.Sabotage{Planted: []string{}, Caught: []string{}, Missed: []measure.Missed{}, Why: c.sabotage.Why}
	switch {
	case len(b.planted) == 0:
	case c.carried < stat.MinPairs:
		s.Why = "fewer than 3 undisturbed pairs carried the planted arms: there is nothing to judge"
	default:
		s = c.planted.Check(c.decode.judge, c.decode.metric.Name, t.floorOf(phaseDecode))
	}
	c.sabotage, t.res.Sabotage = s, &s
}

// turnOf is a turn of one process: its own arm's, or a planted one's.
type turnOf struct {
	process int
	planted string // "" for the arm itself
	repeat  int    // how often the work is done; it counts once
}

// plantedTurns are the turns of the planted arms after a round of the arms in this order: the order
// back, each in the process of the arm that it serves.
func plantedTurns(order []int, planted []measure.Arm) []turnOf {
	var out []turnOf
	for i := len(order) - 1; i >= 0; i-- {
		for _, a := range planted {
			if a.Serve == [2]string{armDefault, armTuned}[order[i]] {
				out = append(out, turnOf{order[i], a.Name, max(1, a.Repeat)})
			}
		}
	}
	return out
}
