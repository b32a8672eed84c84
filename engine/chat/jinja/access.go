package jinja

import (
	"strings"
	"unicode/utf8"
)

// attr is v.name: an item of a dictionary, or a method.
func (r *run) attr(v any, name string) any {
	switch v := v.(type) {
	case *dict:
		if m, ok := dictMethods[name]; ok {
			return bound(m, v)
		}
		if x, ok := v.vals[name]; ok {
			return x
		}
	case *namespace:
		if x, ok := v.vars[name]; ok {
			return x
		}
	case *loop:
		return v.attr(name)
	case string:
		if m, ok := stringMethods[name]; ok {
			return bound(m, v)
		}
	case *list:
		if m, ok := listMethods[name]; ok {
			return bound(m, v)
		}
	case undefined:
		fail("%s is undefined, so it has no %s", shorten(v.name), shorten(name))
	}
	return undefined{name}
}

func bound[T any](m func(T, *Call) any, self T) Func {
	return func(c *Call) any { return m(self, c) }
}

// index is v[k].
func (r *run) index(v, k any) any {
	switch v := v.(type) {
	case *dict:
		switch k.(type) {
		case nil, bool, int, float64, string:
			if x, ok := v.vals[k]; ok {
				return x
			}
		}
	case *list:
		if i, ok := k.(int); ok {
			if i < 0 {
				i += len(v.items)
			}
			if i >= 0 && i < len(v.items) {
				return v.items[i]
			}
		}
	case string:
		if i, ok := k.(int); ok {
			return r.charAt(v, i)
		}
		return undefined{r.str(k)}
	case undefined:
		fail("%s is undefined, so it has no items", shorten(v.name))
	}
	if name, ok := k.(string); ok {
		if _, isDict := v.(*dict); !isDict {
			return r.attr(v, name)
		}
		return undefined{name}
	}
	return undefined{r.str(k)}
}

func (r *run) charAt(s string, i int) any {
	r.charge(len(s))
	if i < 0 {
		i += utf8.RuneCountInString(s)
	}
	for _, c := range s {
		if i == 0 {
			return string(c)
		}
		i--
	}
	return undefined{"character"}
}

// slice is v[start:stop:step], as Python's.
func (r *run) slice(v any, parts [3]*int) any {
	switch v := v.(type) {
	case *list:
		r.charge(16 * len(v.items))
		out := &list{}
		for i := range sliced(len(v.items), parts) {
			out.items = append(out.items, v.items[i])
		}
		return out
	case string:
		r.charge(4 * len(v))
		runes := []rune(v)
		var b strings.Builder
		for i := range sliced(len(runes), parts) {
			b.WriteRune(runes[i])
		}
		return b.String()
	}
	fail("%s cannot be sliced", kindOf(v))
	return nil
}

// sliced yields the indices of a slice of n items.
func sliced(n int, parts [3]*int) func(func(int) bool) {
	step := 1
	if parts[2] != nil {
		step = *parts[2]
	}
	if step == 0 {
		fail("slice step is zero")
	}
	lo, hi := 0, n // bounds of an index
	if step < 0 {
		lo, hi = -1, n-1
	}
	clamp := func(p *int, def int) int {
		if p == nil {
			return def
		}
		i := *p
		if i < 0 {
			i += n
		}
		return min(max(i, lo), hi)
	}
	first, last := lo, hi
	if step < 0 {
		first, last = hi, lo
	}
	start, stop := clamp(parts[0], first), clamp(parts[1], last)
	step = min(max(step, -n-1), n+1)
	return func(yield func(int) bool) {
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if !yield(i) {
				return
			}
		}
	}
}

func (r *run) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	c := r.order(a, b)
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (r *run) order(a, b any) int {
	x, _, ok := number(a)
	y, _, ok2 := number(b)
	if ok && ok2 {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	s, ok := a.(string)
	t, ok2 := b.(string)
	if !ok || !ok2 {
		fail("cannot compare %s with %s", kindOf(a), kindOf(b))
	}
	r.charge(min(len(s), len(t)))
	return strings.Compare(s, t)
}

func (r *run) equal(a, b any) bool {
	r.step()
	r.enter()
	defer r.leave()
	if x, _, ok := number(a); ok {
		y, _, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case string:
		t, ok := b.(string)
		if ok && len(a) == len(t) {
			r.charge(len(a))
		}
		return ok && a == t
	case *list:
		o, ok := b.(*list)
		if !ok || len(a.items) != len(o.items) {
			return false
		}
		for i, x := range a.items {
			if !r.equal(x, o.items[i]) {
				return false
			}
		}
		return true
	case *dict:
		o, ok := b.(*dict)
		if !ok || len(a.keys) != len(o.keys) {
			return false
		}
		for _, k := range a.keys {
			v, ok := o.vals[k]
			if !ok || !r.equal(a.vals[k], v) {
				return false
			}
		}
		return true
	}
	return false
}

// contains is "x in v".
func (r *run) contains(v, x any) bool {
	switch v := v.(type) {
	case string:
		s, ok := x.(string)
		if !ok {
			fail("%s cannot be in a string", kindOf(x))
		}
		r.charge(len(v))
		return strings.Contains(v, s)
	case *dict:
		switch x.(type) {
		case nil, bool, int, float64, string:
			_, ok := v.vals[x]
			return ok
		}
		return false
	case *list:
		for _, y := range v.items {
			if r.equal(x, y) {
				return true
			}
		}
		return false
	case undefined:
		return false
	}
	fail("%s has no items", kindOf(v))
	return false
}
