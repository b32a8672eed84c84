// Package sample chooses the next token from logits.
package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"
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
	for i, n := 0, 0; i < len(x); i += n {
		n = min(256, len(x)-i)
		if !above(x[i:i+n], best) {
			continue
		}
		for j, v := range x[i : i+n] {
			if v > best {
				best, at = v, i+j
			}
		}
	}
	return at
}

// above reports whether x has bits above those of least, as a larger float and some NaN have: floats order
// as their bits do, as signed numbers, but among negative ones the other way round, which flip undoes. There are no branches to go wrong and no chain of maxima to wait for.
func above(x []float32, least float32) bool {
	bits := int32(math.Float32bits(least))
	flip := bits >> 31 & math.MaxInt32
	bits ^= flip
	a, b, c, d, i := bits, bits, bits, bits, 0
	for p := unsafe.Pointer(unsafe.SliceData(x)); i+4 <= len(x); i += 4 {
		v := (*[4]int32)(unsafe.Add(p, 4*i))
		a, b, c, d = max(a, v[0]^flip), max(b, v[1]^flip), max(c, v[2]^flip), max(d, v[3]^flip)
	}
	for _, v := range x[i:] {
		a = max(a, int32(math.Float32bits(v))^flip)
	}
	return max(a, b, c, d) > bits
}
