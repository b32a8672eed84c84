package weights

import "github.com/tilewright/tilewright/kernel"

// CopyRuns fills panels lo to hi-1 of t from the same matrix packed with as many lanes, and reports
// whether it could: such layouts differ only in where whole runs of channels lie.
func (t *Tensor) CopyRuns(from *Tensor, lo, hi int) bool {
	f := t.Format
	if from.Layout.Lanes != t.Layout.Lanes || from.Format != f || f.Super != kernel.SuperNone || f.Bits != 4 && f.Bits != 8 {
		return false
	}
	lanes, k := t.Layout.Lanes, t.K
	pad := byte(f.Bias)
	if f.Bits == 4 {
		pad |= pad << 4
	}
	runs, rows := k*f.Bits/32, 0
	if t.ScaleBytes > 0 {
		rows = t.ScaleBytes / (2 * t.Layout.NR()) // of each group: scales, then offsets if there are any
	}
	for panel := lo; panel < hi; panel++ {
		codes, scales := t.panel(panel)
		for col := range t.Layout.Cols {
			block := panel*t.Layout.Cols + col
			src, at := block/from.Layout.Cols, block%from.Layout.Cols
			if src >= from.Panels {
				fill(codes, runs, 4*lanes, col, t.Layout.Cols, pad)
				fill(scales, rows, 2*lanes, col, t.Layout.Cols, 0)
				continue
			}
			srcCodes, srcScales := from.panel(src)
			deal(codes, srcCodes, runs, 4*lanes, col, t.Layout.Cols, at, from.Layout.Cols)
			deal(scales, srcScales, rows, 2*lanes, col, t.Layout.Cols, at, from.Layout.Cols)
		}
	}
	return true
}

// deal copies n runs of size bytes, from column at of from columns to column col of cols.
func deal(dst, src []byte, n, size, col, cols, at, from int) {
	for i := range n {
		copy(dst[(i*cols+col)*size:][:size], src[(i*from+at)*size:][:size])
	}
}

// fill sets n runs of a column to v.
func fill(dst []byte, n, size, col, cols int, v byte) {
	for i := range n {
		run := dst[(i*cols+col)*size:][:size]
		for j := range run {
			run[j] = v
		}
	}
}
