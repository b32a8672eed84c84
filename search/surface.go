package search

import (
	"math"
	"slices"

	"github.com/tilewright/tilewright/kernel"
)

// surface is the linear model of a space: features of a point, those of the default taken off, so that
// the default's value is 0. The first mains features are of single values, scaled so that weights of
// unit variance give neighbouring values much in common; the rest are products of the places of pairs.
type surface struct {
	at    []int         // first feature of each parameter, and past the last
	roots [][][]float64 // [parameter][value]: features of a value
	place [][]float64   // of each value in its list, from -1 to 1
	mains int
	dim   int
	from  point // the default
}

// alike is how much of the variance of a main effect neighbouring values share, and reach over how many
// steps of the list.
const (
	alike = 0.8
	reach = 1.5
)

func newSurface(s kernel.Space) *surface {
	f := &surface{}
	for _, p := range s.Params {
		n, def := len(p.Values), max(0, slices.Index(p.Values, p.Default))
		place := make([]float64, n)
		for v := range n {
			if n > 1 {
				place[v] = 2*float64(v)/float64(n-1) - 1
			}
		}
		f.at, f.roots, f.place, f.from = append(f.at, f.mains), append(f.roots, roots(n)), append(f.place, place), append(f.from, def)
		f.mains += n
	}
	f.at = append(f.at, f.mains)
	f.dim = f.mains + len(s.Params)*(len(s.Params)-1)/2
	return f
}

// roots are the rows of a root of the covariance of the effects of n values.
func roots(n int) [][]float64 {
	cov := make([]float64, n*n)
	for v := range n {
		for u := range n {
			d := float64(u-v) / reach
			cov[v*n+u] = alike * math.Exp(-d*d/2)
		}
		cov[v*n+v] = 1
	}
	cholesky(cov, n, n)
	rows := make([][]float64, n)
	for v := range n {
		rows[v] = cov[v*n : v*n+v+1]
	}
	return rows
}

// features are those of p.
func (f *surface) features(p point) []float64 {
	x := make([]float64, f.dim)
	for i, v := range p {
		for k, r := range f.roots[i][v] {
			x[f.at[i]+k] += r
		}
		for k, r := range f.roots[i][f.from[i]] {
			x[f.at[i]+k] -= r
		}
	}
	k := f.mains
	for i := range p {
		for j := range i {
			x[k] = f.place[i][p[i]]*f.place[j][p[j]] - f.place[i][f.from[i]]*f.place[j][f.from[j]]
			k++
		}
	}
	return x
}

// table is a set of weights made ready to value points: the effect of each value, and of each pair
// (symmetric, no diagonal).
type table struct {
	main [][]float64
	pair []float64
}

func (f *surface) newTable() *table {
	n := len(f.place)
	t := &table{pair: make([]float64, n*n)}
	for _, r := range f.roots {
		t.main = append(t.main, make([]float64, len(r)))
	}
	return t
}

func (f *surface) tabulate(w []float64, t *table) {
	n := len(f.place)
	for i, rows := range f.roots {
		for v, row := range rows {
			t.main[i][v] = dot(row, w[f.at[i]:])
		}
	}
	k := f.mains
	for i := range n {
		for j := range i {
			t.pair[i*n+j], t.pair[j*n+i] = w[k], w[k]
			k++
		}
	}
}

// dot is the product of a with as many of b.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// cholesky replaces the first n columns of the lower half of a positive definite matrix, of rows d apart,
// by those of its factor, as far as there are rows.
func cholesky(a []float64, d, n int) {
	for i := 0; i*d < len(a); i++ {
		ri := a[i*d : i*d+min(i+1, n)]
		j, most := 0, min(i, n)
		for ; j+2 <= most; j += 2 { // two at a time read the row once
			rj, rk := a[j*d:j*d+j+1], a[(j+1)*d:(j+1)*d+j+2]
			s, t := dot2(rj[:j], rk, ri)
			x := (ri[j] - s) / rj[j]
			ri[j], ri[j+1] = x, (ri[j+1]-t-rk[j]*x)/rk[j+1]
		}
		if j < most {
			rj := a[j*d : j*d+j+1]
			ri[j] = (ri[j] - dot(rj[:j], ri)) / rj[j]
		}
		if i < n {
			ri[i] = math.Sqrt(max(ri[i]-dot(ri[:i], ri), 1e-12))
		}
	}
}

// dot2 are the products of a, and of as many of b, with as many of c.
func dot2(a, b, c []float64) (s, t float64) {
	b, c = b[:len(a)], c[:len(a)]
	var s0, s1, t0, t1 float64
	i := 0
	for ; i+2 <= len(a); i += 2 {
		x, y := c[i], c[i+1]
		s0 += a[i] * x
		t0 += b[i] * x
		s1 += a[i+1] * y
		t1 += b[i+1] * y
	}
	if i < len(a) {
		s0 += a[i] * c[i]
		t0 += b[i] * c[i]
	}
	return s0 + s1, t0 + t1
}

// solveLower solves L x = b in place, solveUpper L' x = b.
func solveLower(l, b []float64) {
	d := len(b)
	for i := range d {
		b[i] = (b[i] - dot(l[i*d:i*d+i], b)) / l[i*d+i]
	}
}

func solveUpper(l, b []float64) {
	d := len(b)
	i := d - 1
	for ; i >= 3; i -= 4 { // four at a time read what is left of b once
		r0, r1, r2, r3 := l[i*d:i*d+i+1], l[(i-1)*d:(i-1)*d+i], l[(i-2)*d:(i-2)*d+i-1], l[(i-3)*d:(i-3)*d+i-2]
		x0 := b[i] / r0[i]
		x1 := (b[i-1] - r0[i-1]*x0) / r1[i-1]
		x2 := (b[i-2] - r0[i-2]*x0 - r1[i-2]*x1) / r2[i-2]
		x3 := (b[i-3] - r0[i-3]*x0 - r1[i-3]*x1 - r2[i-3]*x2) / r3[i-3]
		b[i], b[i-1], b[i-2], b[i-3] = x0, x1, x2, x3
		rest := b[:i-3]
		r0, r1, r2, r3 = r0[:len(rest)], r1[:len(rest)], r2[:len(rest)], r3[:len(rest)]
		for k := range rest {
			rest[k] -= r0[k]*x0 + r1[k]*x1 + r2[k]*x2 + r3[k]*x3
		}
	}
	for ; i >= 0; i-- {
		x := b[i] / l[i*d+i]
		b[i] = x
		row := l[i*d : i*d+i]
		for k, v := range row {
			b[k] -= v * x
		}
	}
}
