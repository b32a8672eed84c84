package quant

import (
	"fmt"
	"math"

	"github.com/tilewright/tilewright/engine/gguf"
)

// Loss is how far a Format's form of a tensor is from its exact values. Add merges that of parts.
type Loss struct {
	Weights int
	Max     float64 // largest absolute difference
	SumErr  float64 // sum of squared differences
	SumRef  float64 // sum of squared exact values
	Over    int     // groups whose scale or offset does not fit f16: Codes refuses them
	Under   int     // groups whose scale or offset is below f16's normal numbers and was rounded there
}

// MaxRel is the largest difference relative to the root mean square of the exact values.
func (l Loss) MaxRel() float64 { return l.rel(l.Max) }

// RMSRel is the root mean square difference relative to that of the exact values.
func (l Loss) RMSRel() float64 {
	return l.rel(math.Sqrt(l.SumErr / float64(max(l.Weights, 1))))
}

func (l Loss) rel(v float64) float64 {
	if v == 0 {
		return 0
	}
	return v / math.Sqrt(l.SumRef/float64(l.Weights))
}

// Add merges the loss of another part of the same tensor.
func (l *Loss) Add(o Loss) {
	l.Weights += o.Weights
	l.Max = max(l.Max, o.Max)
	l.SumErr += o.SumErr
	l.SumRef += o.SumRef
	l.Over += o.Over
	l.Under += o.Under
}

func (l Loss) String() string {
	if l.Max == 0 && l.Over == 0 {
		return "exact"
	}
	s := fmt.Sprintf("rms %.2g, max %.2g of the weights' rms", l.RMSRel(), l.MaxRel())
	if l.Over > 0 {
		s += fmt.Sprintf(", %d groups overflow f16", l.Over)
	}
	if l.Under > 0 {
		s += fmt.Sprintf(", %d groups underflow f16", l.Under)
	}
	return s
}

// Error measures the form that Codes gives against Dequant, over whole blocks of a quantised type.
func Error(t gguf.Type, src []byte) (Loss, error) {
	c, n, err := blocks(t, src)
	if err != nil {
		return Loss{}, err
	}
	l := Loss{Weights: n * t.Block()}
	d, group := newDecoder(t, c), c.format.Group
	exact, ours := make([]float32, group), make([]float32, group)
	for i := range n {
		d.block(src, i)
		for g := range d.groups {
			s, m := ToF16(d.s[g]), ToF16(d.m[g])
			if !c.format.Offset {
				m = 0
			}
			if s&0x7c00 == 0x7c00 || m&0x7c00 == 0x7c00 {
				l.Over++
				continue
			}
			if denormal(d.s[g], s) || c.format.Offset && denormal(d.m[g], m) {
				l.Under++
			}
			expand(c.format, d.q[g*group:], d.s[g], d.m[g], exact)
			expand(c.format, d.q[g*group:], F16(s), F16(m), ours)
			l.compare(exact, ours)
		}
	}
	return l, nil
}

// denormal reports that x was rounded to the half h among the subnormal ones.
func denormal(x float32, h uint16) bool { return h&0x7c00 == 0 && F16(h) != x }

func (l *Loss) compare(exact, ours []float32) {
	for i, x := range exact {
		e := math.Abs(float64(ours[i]) - float64(x))
		l.Max = max(l.Max, e)
		l.SumErr += e * e
		l.SumRef += float64(x) * float64(x)
	}
}
