package tokenizer

// symbol is a piece of text during merging, in a doubly linked list; start < 0 if it was merged away.
type symbol struct {
	prev, next int32
	start, end int32
	id         int32 // -1: not a token
}

// candidate is a possible merge of two neighbours; it is stale when their joint length changed.
type candidate struct {
	prio        float64 // lowest first, then leftmost
	left, right int32
	size, id    int32
}

func (a candidate) before(b candidate) bool {
	return a.prio < b.prio || a.prio == b.prio && a.left < b.left
}

// merger applies the best merge until none is left, in O(n log n).
type merger struct {
	pair func(a, b *symbol) (prio float64, id int32, ok bool)
	sym  []symbol
	heap []candidate
}

// add appends a symbol of text[start:end].
func (m *merger) add(start, end int, id int32) {
	n := int32(len(m.sym))
	m.sym = append(m.sym, symbol{n - 1, n + 1, int32(start), int32(end), id})
}

func (m *merger) reset() { m.sym, m.heap = m.sym[:0], m.heap[:0] }

func (m *merger) run() {
	n := int32(len(m.sym))
	if n == 0 {
		return
	}
	m.sym[n-1].next = -1
	for i := range n - 1 {
		m.offer(i, i+1)
	}
	for len(m.heap) > 0 {
		c := m.pop()
		a, b := &m.sym[c.left], &m.sym[c.right]
		if a.start < 0 || b.start < 0 || a.next != c.right || b.end-a.start != c.size {
			continue
		}
		a.end, a.id, a.next = b.end, c.id, b.next
		b.start = -1
		if a.next >= 0 {
			m.sym[a.next].prev = c.left
			m.offer(c.left, a.next)
		}
		if a.prev >= 0 {
			m.offer(a.prev, c.left)
		}
	}
}

func (m *merger) offer(l, r int32) {
	a, b := &m.sym[l], &m.sym[r]
	if prio, id, ok := m.pair(a, b); ok {
		m.push(candidate{prio, l, r, b.end - a.start, id})
	}
}

func (m *merger) push(c candidate) {
	h := append(m.heap, c)
	i := len(h) - 1
	for i > 0 && h[i].before(h[(i-1)/2]) {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		i = (i - 1) / 2
	}
	m.heap = h
}

func (m *merger) pop() candidate {
	h, top := m.heap, m.heap[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		k := 2*i + 1
		if k >= n {
			break
		}
		if k+1 < n && h[k+1].before(h[k]) {
			k++
		}
		if !h[k].before(h[i]) {
			break
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
	m.heap = h
	return top
}
