package model

import "math"

// Rope is a rotation of the halves of the first 2*len(Freqs) dimensions of a head: pair i turns by
// position * Freqs[i], and cosine and sine are multiplied by Factor. Scalings for long contexts are
// resolved into these numbers.
type Rope struct {
	Freqs  []float64
	Factor float64
}

// Rot is the number of dimensions that rotate.
func (r Rope) Rot() int { return 2 * len(r.Freqs) }

// NewRope is the plain rotation of rot dimensions: Freqs[i] = base^(-2i/rot).
func NewRope(base float64, rot int) Rope {
	r := Rope{Freqs: make([]float64, rot/2), Factor: 1}
	for i := range r.Freqs {
		r.Freqs[i] = math.Pow(base, -2*float64(i)/float64(rot))
	}
	return r
}

// Divide divides the frequencies one by one (GGUF's rope_freqs.weight).
func (r Rope) Divide(by []float32) Rope {
	for i := range by {
		r.Freqs[i] /= float64(by[i])
	}
	return r
}

// Linear stretches positions by factor.
func (r Rope) Linear(factor float64) Rope {
	for i := range r.Freqs {
		r.Freqs[i] /= factor
	}
	return r
}

// Llama3 is the scaling of Llama 3.1 and later: wavelengths beyond orig/low are stretched by factor,
// those under orig/high kept, a linear blend between.
func (r Rope) Llama3(factor, low, high, orig float64) Rope {
	for i, f := range r.Freqs {
		turns := orig * f / (2 * math.Pi)
		blend := min(1, max(0, (turns-low)/(high-low)))
		r.Freqs[i] = f * (blend + (1-blend)/factor)
	}
	return r
}

// Yarn holds the settings of YaRN (arXiv:2309.00071), with llama.cpp's names.
type Yarn struct {
	Factor, Orig       float64
	Ext, Attn          float64 // 1 and 1 as a rule
	BetaFast, BetaSlow float64 // 32 and 1
}

// Yarn blends stretched and kept frequencies between the dimensions that turn BetaSlow and BetaFast
// times within the original context.
func (r Rope) Yarn(base float64, y Yarn) Rope {
	rot := float64(r.Rot())
	dim := func(turns float64) float64 {
		return rot * math.Log(y.Orig/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	lo := max(0, math.Floor(dim(y.BetaFast)))
	hi := min(rot-1, math.Ceil(dim(y.BetaSlow)))
	for i, f := range r.Freqs {
		keep := 1 - min(1, max(0, (float64(i)-lo)/max(0.001, hi-lo)))
		keep *= y.Ext
		r.Freqs[i] = f*keep + f/y.Factor*(1-keep)
	}
	r.Factor *= y.Attn
	if y.Ext != 0 {
		r.Factor *= 1 + 0.1*math.Log(y.Factor)
	}
	return r
}
