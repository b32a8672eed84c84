package session

import (
	"slices"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/search"
)

// hinted is a strategy that first asks for configurations which somebody found good elsewhere. They are
// candidates like any other: measured here, and dropped unless they gain here.
type hinted struct {
	search.Strategy
	hints []kernel.Config
}

// Ask proposes the hints, then what the strategy does.
func (h *hinted) Ask(n int) []search.Candidate {
	if len(h.hints) == 0 {
		return h.Strategy.Ask(n)
	}
	const blocks = 3 // where the strategy does not say
	rest := h.Strategy.Ask(max(1, n-len(h.hints)))
	var out []search.Candidate
	for _, c := range h.hints {
		out = append(out, search.Candidate{Config: c, Blocks: blocks})
		rest = slices.DeleteFunc(rest, func(r search.Candidate) bool { return r.Config.String() == c.String() })
	}
	for i := range out {
		if len(rest) > 0 {
			out[i].Blocks = rest[0].Blocks
		}
	}
	h.hints = nil
	return append(out, rest...)
}

// Estimate is the strategy's, if it weighs what it knows.
func (h *hinted) Estimate(c kernel.Config) (float64, bool) {
	if e, ok := h.Strategy.(search.Estimator); ok {
		return e.Estimate(c)
	}
	return 0, false
}

// hints are configurations for a choice's problem that the store knew of when the tune began: of host rules, imported ones
// too, and of a decision that was made elsewhere or under other circumstances.
func (t *tune) hints(c model.Class, def kernel.Choice) []kernel.Config {
	var out []kernel.Config
	add := func(backend string, cfg kernel.Config) {
		same := func(x kernel.Config) bool { return x.String() == cfg.String() }
		if backend == def.Backend && cfg.String() != def.Config.String() && !slices.ContainsFunc(out, same) {
			out = append(out, cfg)
		}
	}
	k := t.known()
	if r, look := k.rule(c.Format); look.Status != cache.Miss && r.Layout == def.Problem.Layout {
		for _, rc := range r.Choices {
			if rc.M == def.Problem.M {
				add(rc.Backend, rc.Config)
			}
		}
	}
	if k.Look.Status != cache.Miss {
		if ch, ok := k.Decision.Arm.Find(def.Problem); ok {
			add(ch.Backend, ch.Config)
		}
	}
	return out
}

// unmeasured reports whether a rule is an imported candidate of which this tune measured nothing: it
// stays what it is.
func (t *tune) unmeasured(r cache.Rule, c model.Class) bool {
	return r.Imported && !slices.ContainsFunc(r.Choices, func(rc cache.RuleChoice) bool { return t.searched[pointID{c.Key(), rc.M}] })
}
