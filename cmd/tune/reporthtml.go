package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/tuner/session"
)

//go:embed report.html.tmpl
var reportPage string

var reportTemplate = template.Must(template.New("report").Parse(reportPage))

// page is what the template shows. Lengths are in units of its drawings.
type page struct {
	*report
	When, Version string
	Noise         []noiseLine
	Profile       string // as tune host prints it
	Phases        []phaseBars
	Scale         scale
	Rows          []ratioRow
}

// noiseLine is what an arithmetic was judged by; Of is empty where there is one only.
type noiseLine struct {
	judged
	Of, Text, Caught string
}

// phaseBars are the default and the tuned rate of a phase as bars.
type phaseBars struct {
	session.Verdict
	Title string
	Bars  []bar
}

type bar struct {
	Name, Label string
	Y           int
	Width       float64
}

// scale maps ratios to a logarithmic axis.
type scale struct {
	lo, hi float64 // log-ratios at the ends
	One    float64 // x of ratio 1
	Ticks  []tick
	Height int
}

type tick struct {
	X     float64
	Label string
}

type ratioRow struct {
	session.Verdict
	Name, Class     string
	Y               int
	Known, Interval bool
	X, Lo, Width    float64
	Text            string
}

// Sizes of the drawings.
const (
	barsWidth  = 420
	axisWidth  = 420
	rowHeight  = 22
	barsHeight = 26
)

func (r *report) html(when time.Time) ([]byte, error) {
	var profile bytes.Buffer
	if err := printHost(&profile, r.Host); err != nil {
		return nil, err
	}
	p := page{report: r, When: when.UTC().Format("2006-01-02 15:04 UTC"), Version: cli.Version(), Profile: profile.String()}
	all := r.judged()
	for _, j := range all {
		n := noiseLine{judged: j, Of: j.of(all), Text: noiseText(j.Floor)}
		if j.Sabotage != nil {
			n.Caught = sabotageText(*j.Sabotage)
		}
		p.Noise = append(p.Noise, n)
	}
	for _, v := range r.Verdicts {
		if whole(v) {
			p.Phases = append(p.Phases, phase(v))
		}
	}
	p.Scale = newScale(r.Verdicts)
	for i, v := range r.Verdicts {
		p.Rows = append(p.Rows, p.Scale.row(v, i))
	}
	p.Scale.Height = rowHeight*len(r.Verdicts) + 30
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, p)
	return b.Bytes(), err
}

func phase(v session.Verdict) phaseBars {
	out := phaseBars{Verdict: v, Title: v.Phase + " " + v.Weights}
	if v.Default == nil || v.Winner == nil {
		return out
	}
	top := max(*v.Default, *v.Winner)
	for i, x := range []struct {
		name string
		rate float64
	}{{"default", *v.Default}, {"tuned", *v.Winner}} {
		width := 0.0
		if top > 0 {
			width = barsWidth * x.rate / top
		}
		out.Bars = append(out.Bars, bar{x.name, fmt.Sprintf("%.1f tok/s", x.rate), i * barsHeight, width})
	}
	return out
}

// newScale covers every finite median and bound, and at least 10% around the default, up to 8 times.
func newScale(vs []session.Verdict) scale {
	s := scale{lo: math.Log(0.9), hi: math.Log(1.1)}
	for _, v := range vs {
		for _, x := range []float64{v.Ratio.Median, v.Ratio.Lo, v.Ratio.Hi} {
			if l := math.Log(x); x > 0 && !math.IsInf(l, 0) && !math.IsNaN(l) {
				s.lo, s.hi = max(min(s.lo, l), -math.Log(8)), min(max(s.hi, l), math.Log(8))
			}
		}
	}
	s.One = s.x(1)
	last := math.Inf(-1)
	for _, t := range []float64{0.125, 0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 4, 8} {
		l := math.Log(t)
		if l >= s.lo-1e-9 && l <= s.hi+1e-9 && s.x(t)-last >= 32 {
			last = s.x(t)
			s.Ticks = append(s.Ticks, tick{last, fmt.Sprintf("%g", t)})
		}
	}
	return s
}

func (s scale) x(ratio float64) float64 {
	l := min(max(math.Log(ratio), s.lo), s.hi)
	return axisWidth * (l - s.lo) / (s.hi - s.lo)
}

func (s scale) row(v session.Verdict, i int) ratioRow {
	r := ratioRow{Verdict: v, Name: v.Phase + " " + v.Weights + " " + v.Problem, Y: rowHeight * i, Text: "not measured", Class: "none"}
	if m := v.Ratio.Median; m > 0 && !math.IsInf(m, 0) {
		r.Known, r.X, r.Text = true, s.x(m), ratioText(m)+"×"
	}
	if r.Known && bounded(v.Ratio) {
		r.Interval, r.Lo = true, s.x(v.Ratio.Lo)
		r.Width = max(s.x(v.Ratio.Hi)-r.Lo, 1)
	}
	switch {
	case v.Decision == "winner", v.Finalist:
		r.Class = "winner"
	case r.Interval && v.Ratio.Hi < 1:
		r.Class = "slower"
	}
	return r
}
