// Package bench defines the workloads that speed is measured on, with llama-bench's meaning: ppN is
// the prefill of N tokens into an empty cache, tgN are N single decode steps, @dD after a context of
// D tokens. Ids are random: speed does not depend on them.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"github.com/tilewright/tilewright/engine"
)

// Test is one workload: a prefill if Gen is 0, else decode steps.
type Test struct {
	Prompt int `json:"n_prompt"`
	Gen    int `json:"n_gen"`
	Depth  int `json:"n_depth"`
}

// The standard workloads.
var (
	PP512 = Test{Prompt: 512}
	TG128 = Test{Gen: 128}
)

// String is pp512, tg128, tg128@d4096.
func (t Test) String() string {
	s := fmt.Sprintf("pp%d", t.Prompt)
	if t.Gen > 0 {
		s = fmt.Sprintf("tg%d", t.Gen)
	}
	if t.Depth > 0 {
		s += fmt.Sprintf("@d%d", t.Depth)
	}
	return s
}

var testName = regexp.MustCompile(`^(pp|tg)([1-9][0-9]{0,5})(?:@d([0-9]{1,7}))?$`)

// Parse reads the name of a workload.
func Parse(name string) (Test, error) {
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return Test{}, fmt.Errorf("unknown workload %q: want ppN, tgN or tgN@dD", name)
	}
	n, _ := strconv.Atoi(m[2])
	d, _ := strconv.Atoi(m[3])
	if m[1] == "pp" {
		return Test{Prompt: n, Depth: d}, nil
	}
	return Test{Gen: n, Depth: d}, nil
}

// Tokens is the number of tokens that a repetition's rate counts.
func (t Test) Tokens() int { return max(t.Prompt*b2i(t.Gen == 0), t.Gen) }

// Context is the number of positions that a repetition fills.
func (t Test) Context() int { return t.Depth + t.Tokens() }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Bench runs workloads on one session of an engine.
type Bench struct {
	e   *engine.Engine
	s   *engine.Session
	rng *rand.Rand
}

// New opens a session for measuring.
func New(e *engine.Engine) (*Bench, error) {
	s, err := e.NewSession()
	if err != nil {
		return nil, err
	}
	return &Bench{e: e, s: s, rng: rand.New(rand.NewPCG(1, 2))}, nil
}

// Close ends the session.
func (b *Bench) Close() { b.s.Close() }

func (b *Bench) ids(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = b.rng.IntN(b.e.Model.Spec.Vocab)
	}
	return ids
}

// realDepth is how many tokens of a context are computed; what is deeper is copied from them.
const realDepth = 512

// Fill brings the session to a context of depth tokens, keeping what is there.
func (b *Bench) Fill(ctx context.Context, depth int) error {
	if b.s.Len() > depth {
		if err := b.s.Truncate(depth); err != nil {
			return err
		}
	}
	if n := min(depth, realDepth) - b.s.Len(); n > 0 {
		if _, err := b.s.Prefill(ctx, b.ids(n)); err != nil {
			return err
		}
	}
	if b.s.Len() < depth {
		return b.s.Repeat(depth)
	}
	return nil
}

// Generate appends n tokens one by one: a random one, then what next makes of the logits of each. It
// returns the seconds, those in next included.
func (b *Bench) Generate(ctx context.Context, n int, next func(logits []float32) int) (float64, error) {
	id := b.ids(1)[0]
	start := time.Now()
	for range n {
		logits, err := b.s.Step(ctx, id)
		if err != nil {
			return 0, err
		}
		id = next(logits)
	}
	return time.Since(start).Seconds(), nil
}

// Run does one repetition and returns its seconds. What comes before the measured part (the context)
// is not timed.
func (b *Bench) Run(ctx context.Context, t Test) (float64, error) {
	if err := b.Fill(ctx, t.Depth); err != nil {
		return 0, err
	}
	if t.Gen == 0 {
		ids := b.ids(t.Prompt)
		start := time.Now()
		_, err := b.s.Prefill(ctx, ids)
		return time.Since(start).Seconds(), err
	}
	ids := b.ids(t.Gen)
	start := time.Now()
	for _, id := range ids {
		if _, err := b.s.Step(ctx, id); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}
