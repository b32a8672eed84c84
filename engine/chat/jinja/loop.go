package jinja

// loop is the variable of that name inside {% for %}.
type loop struct {
	items        []any
	index, depth int
	last         any
	again        func(items any) string // recursive
}

func (s *forStmt) exec(r *run) jump {
	s.iterate(r, s.over.eval(r), 0)
	return jumpNone
}

func (s *forStmt) iterate(r *run, over any, depth int) {
	saved := r.scope
	defer func() { r.scope = saved }()
	items := r.items(over)
	if s.cond != nil {
		items = s.filter(r, items)
	}
	if len(items) == 0 {
		r.scope = newScope(saved)
		r.exec(s.empty)
		return
	}
	l := &loop{items: items, depth: depth}
	if s.recursive {
		l.again = func(v any) string {
			r.enter()
			defer r.leave()
			return r.capture([]stmt{again{s, v, depth + 1}})
		}
	}
	for i, v := range items {
		r.step()
		l.index = i
		r.scope = newScope(saved)
		r.bind("loop", l)
		r.unpack(s.names, v)
		if r.exec(s.body) == jumpBreak {
			return
		}
	}
}

func (s *forStmt) filter(r *run, items []any) []any {
	var out []any
	saved := r.scope
	for _, v := range items {
		r.step()
		r.scope = newScope(saved)
		r.unpack(s.names, v)
		if truth(s.cond.eval(r)) {
			out = append(out, v)
		}
	}
	r.scope = saved
	return out
}

// again runs a recursive loop over other items.
type again struct {
	loop  *forStmt
	over  any
	depth int
}

func (a again) exec(r *run) jump {
	a.loop.iterate(r, a.over, a.depth)
	return jumpNone
}

func (l *loop) attr(name string) any {
	n, i := len(l.items), l.index
	switch name {
	case "index":
		return i + 1
	case "index0":
		return i
	case "revindex":
		return n - i
	case "revindex0":
		return n - i - 1
	case "first":
		return i == 0
	case "last":
		return i == n-1
	case "length":
		return n
	case "depth":
		return l.depth + 1
	case "depth0":
		return l.depth
	case "previtem":
		if i > 0 {
			return l.items[i-1]
		}
	case "nextitem":
		if i < n-1 {
			return l.items[i+1]
		}
	case "cycle":
		return Func(func(c *Call) any { return c.arg(l.index % max(len(c.Args), 1)) })
	case "changed":
		return Func(func(c *Call) any {
			v := any(&list{c.Args})
			same := l.last != nil && c.run.equal(v, l.last)
			l.last = v
			return !same
		})
	}
	return undefined{"loop." + name}
}
