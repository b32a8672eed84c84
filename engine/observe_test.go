package engine_test

import (
	"slices"
	"testing"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// events collects what an observer is told.
type events []engine.Event

func (v *events) Region(e engine.Event) { *v = append(*v, e) }

// TestObserver: ops are told in order and without overlap, each with the leader's share within it, and
// every fork of the pool belongs to one.
func TestObserver(t *testing.T) {
	for _, n := range []int{1, 2} {
		seen := &events{}
		o := options(model.W4A8)
		o.Observer = seen
		o.Knobs.ThreadsDecode, o.Knobs.ThreadsPrefill = n, n
		e := load(t, small(), o)
		s := session(t, e)
		if _, err := s.Prefill(t.Context(), []int{1, 2, 3, 4, 5}); err != nil {
			t.Fatal(err)
		}
		*seen = nil
		if _, err := s.Step(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		ops, end := map[string]int{}, int64(0)
		for _, v := range *seen {
			if v.Start < end || v.Done < v.Start || v.End < v.Done {
				t.Errorf("%d workers: %+v after %d", n, v, end)
			}
			end = v.End
			ops[v.Op+v.For]++
		}
		for op, calls := range map[string]int{"qkv": 3, "quantqkv": 3, "rope": 3, "attn": 3, "o": 3, "gate_up": 3, "quantdown": 3, "down": 3, "head": 1, "embed": 1} {
			if ops[op] != calls {
				t.Errorf("%d workers: %d events of %s, want %d", n, ops[op], op, calls)
			}
		}
	}
}

// TestRepeat: a sequence lengthened by copies of itself is one whose cache holds those copies; what
// was there stays.
func TestRepeat(t *testing.T) {
	e := load(t, small(), options(model.W4A8))
	s := session(t, e)
	ids := make([]int, kernel.KVBlock)
	for i := range ids {
		ids[i] = 11 * i
	}
	if err := s.Repeat(40); err == nil {
		t.Error("an empty sequence was repeated")
	}
	if _, err := s.Prefill(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	logits, err := s.Step(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(logits)
	if err := s.Repeat(300); err != nil || s.Len() != 300 {
		t.Fatalf("%d tokens, %v", s.Len(), err)
	}
	for _, n := range []int{299, e.Options().Context + 1} {
		if err := s.Repeat(n); err == nil {
			t.Errorf("repeated to %d", n)
		}
	}
	deep, err := s.Step(t.Context(), 9)
	if err != nil || maxDiff(deep, want) == 0 {
		t.Errorf("a step at 300 is the one at %d (%v)", len(ids), err)
	}
	if err := s.Truncate(len(ids)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Step(t.Context(), 9)
	if d := maxDiff(got, want); err != nil || d != 0 {
		t.Errorf("after truncation the step is off by %g (%v)", d, err)
	}
}

func TestKVBytes(t *testing.T) {
	e := load(t, small(), options(model.W4A8))
	per := 2 * 2 * 32 * e.Options().Knobs.KV.Bytes() // keys and values, heads, dimension
	for depth, positions := range map[int]int{0: 3, 9: 30, 100: 16 + 101 + 16} {
		if got := e.KVBytes(depth); got != positions*per {
			t.Errorf("at %d: %d bytes, want %d", depth, got, positions*per)
		}
	}
}
