package measure

import (
	"cmp"
	"math"
	"slices"

	"github.com/tilewright/tilewright/search/stat"
)

// NotARanking is printed where the order of arms would be noise.
const NotARanking = "NOT A RANKING"

// Row is an arm's place in a ranking.
type Row struct {
	Arm    string  `json:"arm"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Spread float64 `json:"spread"` // (max-min)/median
	Passes int     `json:"passes"`
}

// Ranking orders arms by the median of a metric, best first. Refused says why the order means
// nothing; it is empty where it does.
type Ranking struct {
	Metric  string `json:"metric"`
	Rows    []Row  `json:"rows"`
	Refused string `json:"refused,omitempty"`
}

// Ranking ranks the arms that have values. It refuses with fewer than three passes of any ranked
// arm and when the top two differ by less than their own spread.
func (j *Judge) Ranking(metric string) Ranking {
	m := j.metrics[metric]
	r := Ranking{Metric: metric}
	for _, a := range j.arms {
		v := j.Values(metric, a.Name)
		if len(v) == 0 {
			continue
		}
		row := Row{Arm: a.Name, Median: stat.Median(v), Min: slices.Min(v), Max: slices.Max(v), Passes: len(v)}
		row.Spread = (row.Max - row.Min) / row.Median
		r.Rows = append(r.Rows, row)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return cmp.Compare(m.Gain(b.Median, a.Median), 0) })
	for _, row := range r.Rows {
		switch {
		case row.Passes == 1:
			r.Refused = string(stat.SinglePass)
		case row.Passes < stat.MinPairs && r.Refused == "":
			r.Refused = string(stat.TooFew)
		}
	}
	switch {
	case r.Refused != "":
	case len(r.Rows) < 2:
		r.Refused = NotARanking + ": fewer than two arms have values"
	case math.Expm1(m.Gain(r.Rows[0].Median, r.Rows[1].Median)) < max(r.Rows[0].Spread, r.Rows[1].Spread):
		r.Refused = NotARanking + ": the top two differ by less than their own spread"
	}
	return r
}
