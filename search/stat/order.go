package stat

import "math/rand/v2"

// Rotate is the order of pass p (from 1) over n arms: it starts at arm (p-1) mod n. Interleaving
// without it leaves arm 0 first for ever.
func Rotate(n, p int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = (p - 1 + i) % n
	}
	return out
}

// Williams is a Latin square over n arms balanced for carry-over (Williams 1949): every arm takes
// every position equally often and follows every other arm equally often. n rows for even n, 2n for
// odd; one row for n of 1, none for 0.
func Williams(n int) [][]int {
	rows := make([][]int, williamsRows(n))
	for r := range rows {
		rows[r] = williamsRow(n, r)
	}
	return rows
}

func williamsRows(n int) int {
	if n > 1 && n%2 == 1 {
		return 2 * n
	}
	return n
}

// williamsRow is row r of the square: 0, 1, n-1, 2, n-2, ... shifted by r, from row n on backwards.
func williamsRow(n, r int) []int {
	row := make([]int, n)
	for i := range row {
		a := n - i/2
		if i%2 == 1 {
			a = (i + 1) / 2
		}
		at := i
		if r >= n {
			at = n - 1 - i
		}
		row[at] = (a + r) % n
	}
	return row
}

// squareCap bounds the arms that Orders balances: more would not finish a square anyway.
const squareCap = 64

// Orders yields the order of each successive block over n arms: whole Williams squares, the rows of
// each and the labels shuffled by seed, so that every n (or 2n) blocks are balanced and no two
// squares alike; above 64 arms, random orders.
type Orders struct {
	n     int
	rng   *rand.Rand
	rows  []int // of the square under way
	label []int
	next  int
}

// NewOrders starts a sequence of block orders.
func NewOrders(n int, seed uint64) *Orders {
	return &Orders{n: n, rng: rand.New(rand.NewPCG(seed, 0x0bd3))}
}

// Next is the order of the next block.
func (o *Orders) Next() []int {
	if o.n < 1 || o.n > squareCap {
		return o.rng.Perm(o.n)
	}
	if o.next == len(o.rows) {
		o.rows, o.next = make([]int, williamsRows(o.n)), 0
		for i := range o.rows {
			o.rows[i] = i
		}
		o.label = o.rng.Perm(o.n)
		o.rng.Shuffle(len(o.rows), func(i, j int) { o.rows[i], o.rows[j] = o.rows[j], o.rows[i] })
	}
	o.next++
	row := williamsRow(o.n, o.rows[o.next-1])
	for i, a := range row {
		row[i] = o.label[a]
	}
	return row
}

// ABBA is the order of confirmation runs of a control (0) and a finalist (1): each pair holds both
// once, and which goes first alternates, so that a linear drift cancels over two pairs.
func ABBA(pairs int) [][2]int {
	out := make([][2]int, pairs)
	for i := range out {
		out[i] = [2]int{i % 2, 1 - i%2}
	}
	return out
}
