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
	// Why says why the arm is not ranked: it stands below those that are.
	Why string `json:"why,omitempty"`
}

// Ranking orders arms by the median of a metric, best first. Refused says why the order means
// nothing; it is empty where it does.
type Ranking struct {
	Metric  string `json:"metric"`
	Rows    []Row  `json:"rows"`
	Refused string `json:"refused,omitempty"`
}

// Ranking ranks the arms that have three passes at least; the others are listed below them and say
// why. It refuses when fewer than two are left and when the top two differ by less than their own
// spread. Arms in leaveOut (an A/A twin) are not listed.
func (j *Judge) Ranking(metric string, leaveOut ...string) Ranking {
	m := j.metrics[metric]
	r := Ranking{Metric: metric}
	for _, a := range j.arms {
		v := j.Values(metric, a.Name)
		if len(v) == 0 || slices.Contains(leaveOut, a.Name) {
			continue
		}
		row := Row{Arm: a.Name, Median: stat.Median(v), Min: slices.Min(v), Max: slices.Max(v), Passes: len(v)}
		row.Spread = (row.Max - row.Min) / row.Median
		switch {
		case row.Passes == 1:
			row.Why = string(stat.SinglePass)
		case row.Passes < stat.MinPairs:
			row.Why = string(stat.TooFew)
		}
		r.Rows = append(r.Rows, row)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		if (a.Why == "") != (b.Why == "") {
			return cmp.Compare(len(a.Why), len(b.Why))
		}
		return cmp.Compare(m.Gain(b.Median, a.Median), 0)
	})
	r.Refused = refusal(m, r.Rows)
	return r
}

// refusal says why sorted rows are no ranking, "" if they are one.
func refusal(m Metric, rows []Row) string {
	for i := range 2 {
		if len(rows) <= i {
			return NotARanking + ": fewer than two arms have values"
		}
		if rows[i].Why != "" {
			return rows[i].Why
		}
	}
	if math.Expm1(m.Gain(rows[0].Median, rows[1].Median)) < max(rows[0].Spread, rows[1].Spread) {
		return NotARanking + ": the top two differ by less than their own spread"
	}
	return ""
}
