package x86

import (
	"fmt"

	"github.com/tilewright/tilewright/kernel"
)

// attnMaxRows bounds the query rows of one OpAttn; each row tile is unrolled code.
const attnMaxRows = 64

// attnSpace declares the tiles of OpAttn. A tile has accumulators for rows x columns; what it needs
// beside them is at most their square root, hence the two budgets.
func attnSpace(isa ISA, p kernel.Problem) (kernel.Space, error) {
	if err := checkAttn(p); err != nil {
		return kernel.Space{}, err
	}
	d := attnDefaults(isa, p)
	budget := int64(isa.accumulators())
	param := func(name, doc string, values ...int64) kernel.Param {
		return kernel.Param{Name: name, Doc: doc, Values: values, Default: d[name]}
	}
	return kernel.Space{
		Version: "2",
		Params: []kernel.Param{
			param("rows", "query rows of a register tile", rowTiles(p.M)...),
			param("qblocks", "key blocks of a score tile", 1, 2, 3, 4),
			param("qsplit", "partial sums of a score over the head dimension", 1, 2, 4),
			param("vcols", "vectors of the head dimension in a value tile", valueTiles(isa, p.Dim)...),
			param("step", "blocks of 16 positions between two updates of the running maximum", 1, 2, 4, 8),
			{Name: "prefetch", Doc: "fetch the values of a step while its keys are read, and the next keys while its values are",
				Values: []int64{fetchNothing, fetchValues, fetchBoth}, Names: []string{"no", "values", "both"}, Default: d["prefetch"]},
		},
		Constraints: []kernel.Constraint{
			{Doc: "the score tile must fit the vector registers", Max: budget,
				Terms: [][]string{{"rows", "qblocks", "qsplit", fmt.Sprint(isa.Halves())}}},
			{Doc: "the value tile must fit the vector registers", Max: budget, Terms: [][]string{{"rows", "vcols"}}},
			{Doc: "a score tile lies within a step", Max: 0, Terms: [][]string{{"qblocks"}, {"-1", "step"}}},
		},
	}, nil
}

// accumulators is how many of the vector registers a tile may use for sums: with rows x columns of
// them, min(rows, columns) + 1 more are in use.
func (s ISA) accumulators() int {
	if s.EVEX {
		return 26
	}
	return 12
}

func checkAttn(p kernel.Problem) error {
	no := func(why string) error { return fmt.Errorf("%w: %s: %s", kernel.ErrUnsupported, p, why) }
	switch {
	case p.M < 1 || p.M > attnMaxRows:
		return no(fmt.Sprintf("the query rows must be 1 to %d", attnMaxRows))
	case p.Dim < 8 || p.Dim > 1024 || p.Dim%8 != 0:
		return no("the head dimension must be a multiple of 8 up to 1024")
	case p.Elem != kernel.ElemF32 && p.Elem != kernel.ElemF16 && p.Elem != kernel.ElemBF16:
		return no("no element type " + string(p.Elem))
	}
	return nil
}

// rowTiles lists the row tiles of m rows: of 1 to 12 rows, and not so many that their code would be
// long.
func rowTiles(m int) []int64 {
	var out []int64
	last := 0
	for r := 1; r <= min(m, 12); r++ {
		tiles := (m + r - 1) / r
		if size := (m + tiles - 1) / tiles; tiles <= max(6, (m+3)/4) && size == r && size != last {
			out = append(out, int64(r))
			last = size
		}
	}
	return out
}

// valueTiles lists the widths of a value tile.
func valueTiles(isa ISA, dim int) []int64 {
	n := (dim + isa.Lanes - 1) / isa.Lanes
	var out []int64
	for _, w := range []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16} {
		if w <= n && w <= isa.accumulators() {
			out = append(out, int64(w))
		}
	}
	return out
}

// attnDefaults fills the registers: few rows get several sums in flight and wide value tiles. Keys and
// values come from memory when few rows share them: then steps are as short as can be, so that either is fetched
// while the other is used, and value tiles are whole parts of cache lines. Many rows fetch ahead too: what
// the first of their tiles waited for in the outer caches was a tenth of the time.
func attnDefaults(isa ISA, p kernel.Problem) kernel.Config {
	budget, most, few := isa.accumulators(), int64(6), p.M <= 8
	if isa.EVEX {
		most = 12 // a conversion costs as much as one of its rows
	}
	c := kernel.Config{"qblocks": 1, "qsplit": 1, "step": 8, "prefetch": fetchBoth}
	if few {
		c["step"] = 1
		most = min(most, 4)
	}
	for i, r := range rowTiles(p.M) {
		if i == 0 || r <= most {
			c["rows"] = r
		}
	}
	rows := int(c["rows"])
	tile := rows * isa.Halves()
	for _, s := range []int{2, 4} {
		if tile*s <= 8 {
			c["qsplit"] = int64(s)
		}
	}
	if c["qsplit"] == 1 && tile*2 <= budget {
		c["qblocks"] = 2
		c["step"] = max(c["step"], 2)
	}
	n := (p.Dim + isa.Lanes - 1) / isa.Lanes
	chunks := func(w int64) int { return (n + int(w) - 1) / int(w) }
	c["vcols"] = 1
	for _, w := range valueTiles(isa, p.Dim) {
		if rows*int(w) <= budget && chunks(w) < chunks(c["vcols"]) && !(few && w&(w-1) != 0) {
			c["vcols"] = w
		}
	}
	return c
}
