package x86

import (
	"fmt"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// Parameters of OpLinear.
const (
	parMR       = "mr"
	parStreams  = "streams"
	parVecs     = "vecs"
	parOrder    = "order"
	parHi       = "hi"
	parFMem     = "fmem"
	parIMem     = "imem"
	parPanel    = "panel"
	parKU       = "ku"
	parPrefetch = "prefetch"
	parHint     = "hint"
	parBlock    = "block_kb"
	parMC       = "mc"
	parChunk    = "chunk"
)

// maxDots bounds the multiply-accumulates of one iteration of the inner loop, that is code size.
const maxDots = 1024

func linearSpace(isa ISA, p kernel.Problem) (kernel.Space, error) {
	if err := checkLinear(p); err != nil {
		return kernel.Space{}, err
	}
	s := newSpace("5")
	t := tile{p: p, isa: isa, mr: 1, streams: 1, vecs: 1}
	integer, many := p.Arith != kernel.F32, p.M > 8
	add := func(name, doc string, values []int64, names ...string) {
		s.add(name, doc, values, names...)
	}
	add(parMR, "rows of the register tile; callers pad rows to a multiple", rowChoices(isa, p))
	add(parStreams, "panels walked at once, each a sequential stream", choose(many, []int64{1, 2}, []int64{1, 2, 4, 8}))
	add(parVecs, "vectors of a panel computed at once; a panel has "+fmt.Sprint(p.Layout.Cols*isa.Halves()), divisors(p.Layout.Cols*isa.Halves()))
	add(parOrder, "weights: activations from memory or kept in registers; rows: expanded weights kept", []int64{0, 1}, "weights", "rows")
	add(parHi, "own accumulators for nibbles left in place, the second of a word or byte", choose(isa.EVEX && p.Format.Bits == 4 && integer, []int64{0, 1}, []int64{0}), "no", "yes")
	add(parFMem, "float accumulators", choose(t.grouped(), []int64{0, 1}, []int64{0}), "registers", "output tile")
	add(parIMem, "int32 accumulators of int16 sums", choose(t.sums16(), []int64{0, 1}, []int64{0}), "registers", "scratch")
	add(parPanel, "weights are unpacked to a panel once for all rows", choose(many && unpacks(p), []int64{0, 1}, []int64{0}), "no", "yes")
	add(parKU, "k of one iteration of the inner loop", unrolls(t))
	add(parPrefetch, "bytes ahead of the weights to prefetch", []int64{0, 512, 1024, 2048, 4096})
	add(parHint, "cache level of prefetches", []int64{0, 1, 2}, "nta", "t0", "t1")
	add(parBlock, "KiB of weights, as main reads them, that stay in cache for all rows; 0 = no blocking", choose(many, []int64{0, 64, 128, 256, 384, 768, 1536}, []int64{0}))
	add(parMC, "blocks of rows that meet a block of weights at once; 0 = all", choose(p.M > 64, []int64{0, 4, 16}, []int64{0}))
	add(parChunk, "blocks of weights that a worker takes at once; 0 = an equal share", choose(p.M == 1, []int64{0, 1, 4}, []int64{0}))
	linearConstraints(s, t)
	return s.space(linearDefaults(isa, p))
}

// rowChoices lists tile heights. Decode takes powers of two; more rows, whatever fits the registers.
func rowChoices(isa ISA, p kernel.Problem) []int64 {
	switch {
	case p.M == 1:
		return []int64{1}
	case p.M <= 8:
		return []int64{1, 2, 4, 8}
	}
	hi := min(isa.Regs/2, 16)
	if !isa.EVEX {
		hi = 6
	}
	var out []int64
	for m := 1; m <= hi; m++ {
		out = append(out, int64(m))
	}
	return out
}

// unrolls lists depths of the inner loop: whole periods of runs, and of int16 sums, that divide the
// span.
func unrolls(t tile) []int64 {
	unit := 1
	for _, panel := range []bool{false, unpacks(t.p) && t.p.M > 8} {
		c := codecOf(t.p.Format, t.p.Arith, panel)
		unit = max(unit, c.runK()*c.period)
	}
	if t.dot() == dotNibble {
		unit = max(unit, min(t.p.Format.Group, t.nibbleK()))
	}
	var out []int64
	for k := unit; k <= 128 && t.p.K%k == 0; k *= 2 {
		if !t.grouped() || t.p.Format.Group%k == 0 {
			out = append(out, int64(k))
		}
	}
	return out
}

// linearConstraints declares register pressure and code size in terms of the parameters.
func linearConstraints(s *spaceBuilder, t tile) {
	h, cols := t.isa.Halves(), t.p.Layout.Cols
	var regs sum
	regs.add(1, parMR, parVecs, parStreams)
	if t.sums16() {
		regs.add(1, parMR, parVecs, parStreams)
		regs.add(-1, parMR, parVecs, parStreams, parIMem)
	}
	regs.add(1, parHi, parMR, parVecs, parStreams)
	if t.grouped() {
		regs.add(h*cols, parMR, parStreams)
		regs.add(-h*cols, parMR, parStreams, parFMem)
		if t.p.Arith == kernel.F32 {
			regs.add(-h*cols, parMR, parStreams, parPanel)
			var one sum
			one.add(1, parFMem)
			one.add(1, parPanel)
			s.limit("a dequantised panel has no scales left to accumulate by group", one, 1)
		}
	}
	// Operands: for rows (order 1) all expanded weights and one activation, else one raw and one
	// expanded vector of weights and, without embedded broadcast, the activations of a run.
	temp, weights := 0, 1
	if t.dot().staged() || t.p.Format.Bits == 6 {
		temp = 1
	}
	if t.dot() == dotByte {
		weights = 2
	}
	regs.add(max(1+temp, t.groupRegs()-weights), parOrder)
	regs.add(weights, parOrder, parVecs, parStreams)
	byWeights := func(n int, names ...string) {
		regs.add(n, names...)
		regs.add(-n, append(slices.Clone(names), parOrder)...)
	}
	byWeights(max(1+weights+temp, t.groupRegs()))
	if planes := t.codec().planes; !t.isa.EVEX {
		byWeights(planes, parMR)
		byWeights(1-planes, parMR, parPanel)
	}
	s.limit("vector registers", regs, t.isa.Regs)

	var dots sum
	dots.add(t.p.Arith.Bytes(), parMR, parVecs, parStreams, parKU)
	s.limit("multiply-accumulates of one iteration, in k of a quarter", dots, 4*maxDots)
	var panel, raw sum
	panel.add(1, parPanel, parStreams)
	s.limit("panels are walked one at a time", panel, 1)
	raw.add(1, parPanel, parHi)
	s.limit("a panel has no nibbles", raw, 0)
}

func choose[T any](c bool, yes, no T) T {
	if c {
		return yes
	}
	return no
}

func divisors(n int) []int64 {
	var out []int64
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			out = append(out, int64(d))
		}
	}
	return out
}

// spaceBuilder collects parameters; one with a single value is not offered but used as a constant.
type spaceBuilder struct {
	s     kernel.Space
	fixed map[string]int64
}

func newSpace(version string) *spaceBuilder {
	return &spaceBuilder{s: kernel.Space{Version: version}, fixed: map[string]int64{}}
}

func (s *spaceBuilder) add(name, doc string, values []int64, names ...string) {
	if len(values) == 1 {
		s.fixed[name] = values[0]
		return
	}
	s.s.Params = append(s.s.Params, kernel.Param{Name: name, Doc: doc, Values: values, Names: names, Default: values[0]})
}

// sum is a sum of products of parameters.
type sum []product

type product struct {
	coef  int
	names []string
}

func (s *sum) add(coef int, names ...string) { *s = append(*s, product{coef, names}) }

// limit declares a constraint, products of constants multiplied out.
func (s *spaceBuilder) limit(doc string, terms sum, most int) {
	var out [][]string
	for _, t := range terms {
		coef := int64(t.coef)
		var names []string
		for _, n := range t.names {
			if v, ok := s.fixed[n]; ok {
				coef *= v
			} else {
				names = append(names, n)
			}
		}
		if coef != 0 && len(names) == 0 {
			most -= int(coef)
		} else if coef != 0 {
			out = append(out, append([]string{fmt.Sprint(coef)}, names...))
		}
	}
	if len(out) > 0 {
		s.s.Constraints = append(s.s.Constraints, kernel.Constraint{Doc: doc, Terms: out, Max: int64(most)})
	}
}

// space takes as defaults the first of the preferences that the space allows, each value lowered to
// one that its parameter has. Parameters that a preference leaves out take their first value.
func (s *spaceBuilder) space(preferences []kernel.Config) (kernel.Space, error) {
	for _, want := range preferences {
		for i, p := range s.s.Params {
			s.s.Params[i].Default = p.Values[0]
			for _, v := range p.Values {
				if v <= want[p.Name] {
					s.s.Params[i].Default = v
				}
			}
		}
		if s.s.Check(s.s.Default()) == nil {
			break
		}
	}
	return s.s, s.s.Validate()
}
