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
	if n < 2 {
		return [][]int{{0}}[:n]
	}
	first := make([]int, n) // 0, 1, n-1, 2, n-2, ...
	for i := 1; i < n; i++ {
		if i%2 == 1 {
			first[i] = (i + 1) / 2
		} else {
			first[i] = n - i/2
		}
	}
	rows := make([][]int, 0, 2*n)
	for shift := range n {
		row := make([]int, n)
		for i, a := range first {
			row[i] = (a + shift) % n
		}
		rows = append(rows, row)
	}
	if n%2 == 1 {
		for _, row := range rows[:n] {
			back := make([]int, n)
			for i, a := range row {
				back[n-1-i] = a
			}
			rows = append(rows, back)
		}
	}
	return rows
}

// squareCap bounds the arms that Orders balances: more would not finish a square anyway.
const squareCap = 64

// Orders yields the order of each successive block over n arms: whole Williams squares, the rows of
// each and the labels shuffled by seed, so that every n (or 2n) blocks are balanced and no two
// squares alike; above 64 arms, random orders.
type Orders struct {
	n    int
	rng  *rand.Rand
	rows [][]int
	next int
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
		o.rows, o.next = Williams(o.n), 0
		label := o.rng.Perm(o.n)
		for _, row := range o.rows {
			for i, a := range row {
				row[i] = label[a]
			}
		}
		o.rng.Shuffle(len(o.rows), func(i, j int) { o.rows[i], o.rows[j] = o.rows[j], o.rows[i] })
	}
	o.next++
	return o.rows[o.next-1]
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
