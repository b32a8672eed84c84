// Package sample chooses the next token from logits.
package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Options of a sampler. The zero value is greedy.
type Options struct {
	Temperature float64 // 0: the best token
	TopK        int     // keep the k best; 0 keeps all
	TopP        float64 // keep the smallest set of this probability; 0 or 1 keeps all
	Seed        uint64
}

// Sampler draws tokens; the same options and logits give the same tokens.
type Sampler struct {
	opt Options
	rng *rand.Rand
	buf []candidate
}

type candidate struct {
	id int
	p  float64 // logit, then probability
}

// New makes a sampler.
func New(o Options) *Sampler {
	return &Sampler{opt: o, rng: rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15))}
}

// Next chooses a token. NaN logits are never chosen; without any other it is token 0.
func (s *Sampler) Next(logits []float32) int {
	if s.opt.Temperature <= 0 {
		return Argmax(logits)
	}
	c := s.buf[:0]
	for id, v := range logits {
		if v == v {
			c = append(c, candidate{id, float64(v)})
		}
	}
	s.buf = c
	if len(c) == 0 {
		return 0
	}
	if k := s.opt.TopK; k > 0 && k < len(c) || s.opt.TopP > 0 && s.opt.TopP < 1 {
		slices.SortStableFunc(c, func(a, b candidate) int { return cmp.Compare(b.p, a.p) })
		if k > 0 {
			c = c[:min(k, len(c))]
		}
	}
	sum := softmax(c, s.opt.Temperature)
	if p := s.opt.TopP; p > 0 && p < 1 {
		c, sum = nucleus(c, p*sum)
	}
	x := s.rng.Float64() * sum
	for _, v := range c {
		if x -= v.p; x < 0 {
			return v.id
		}
	}
	return c[len(c)-1].id
}

// softmax replaces logits by weights proportional to probabilities and returns their sum.
func softmax(c []candidate, temp float64) (sum float64) {
	top := math.Inf(-1)
	for _, v := range c {
		top = max(top, v.p)
	}
	for i := range c {
		if d := c[i].p - top; d == 0 || math.IsNaN(d) { // Inf - Inf: one of the best
			c[i].p = 1
		} else {
			c[i].p = math.Exp(d / temp)
		}
		sum += c[i].p
	}
	return sum
}

// nucleus cuts a descending list where its sum reaches want.
func nucleus(c []candidate, want float64) ([]candidate, float64) {
	var sum float64
	for i, v := range c {
		if sum += v.p; sum >= want {
			return c[:i+1], sum
		}
	}
	return c, sum
}

// Argmax is the index of the largest value, the first among equals; NaN never wins.
func Argmax(x []float32) int {
	best, at := float32(math.Inf(-1)), 0
	for i := 0; i < len(x); i += 8 {
		if i+8 <= len(x) { // eight at a time, independent of each other: a new best is rare
			v := (*[8]float32)(x[i:])
			if !(v[0] > best || v[1] > best || v[2] > best || v[3] > best || v[4] > best || v[5] > best || v[6] > best || v[7] > best) {
				continue
			}
		}
		for j, v := range x[i:min(i+8, len(x))] {
			if v > best {
				best, at = v, i+j
			}
		}
	}
	return at
}
