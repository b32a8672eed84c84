package jinja

import "math"

// An expr yields a value.
type expr interface{ eval(r *run) any }

type (
	constExpr struct{ v any }
	nameExpr  struct {
		name string
		line int
	}
	listExpr struct{ items []expr }
	dictExpr struct{ keys, vals []expr }
	attrExpr struct {
		of   expr
		name string
	}
	indexExpr struct{ of, at expr }
	sliceExpr struct {
		of    expr
		parts [3]expr // start, stop, step; nil for none
	}
	callExpr struct {
		fn    expr
		args  arguments
		extra Func // caller of {% call %}
		line  int
	}
	filterExpr struct {
		of   expr
		name string
		args arguments
		line int
	}
	testExpr struct {
		of   expr
		name string
		args []expr
		line int
	}
	ifExpr      struct{ cond, then, other expr }
	orExpr      struct{ a, b expr }
	andExpr     struct{ a, b expr }
	notExpr     struct{ e expr }
	negExpr     struct{ e expr }
	compareExpr struct {
		first expr
		ops   []string
		args  []expr
	}
	binaryExpr struct {
		op   string
		a, b expr
	}
	bodyExpr struct{} // the text of a {% set %} block
)

func (e constExpr) eval(*run) any { return e.v }

func (e bodyExpr) eval(r *run) any { v, _ := r.scope.get(""); return v }

func (e nameExpr) eval(r *run) any {
	r.step()
	if v, ok := r.scope.get(e.name); ok {
		return v
	}
	return undefined{e.name}
}

func (e listExpr) eval(r *run) any {
	out := &list{make([]any, len(e.items))}
	for i, x := range e.items {
		r.step()
		out.items[i] = x.eval(r)
	}
	return out
}

func (e dictExpr) eval(r *run) any {
	d := newDict()
	for i, k := range e.keys {
		r.step()
		d.set(k.eval(r), e.vals[i].eval(r))
	}
	return d
}

func (e attrExpr) eval(r *run) any { r.step(); return r.attr(e.of.eval(r), e.name) }

func (e indexExpr) eval(r *run) any { r.step(); return r.index(e.of.eval(r), e.at.eval(r)) }

func (e sliceExpr) eval(r *run) any {
	r.step()
	of := e.of.eval(r)
	var parts [3]*int
	for i, p := range e.parts {
		if p == nil {
			continue
		}
		switch v := p.eval(r).(type) {
		case nil:
		case int:
			parts[i] = &v
		default:
			fail("a slice needs integers, not %s", kindOf(v))
		}
	}
	return r.slice(of, parts)
}

func (e callExpr) eval(r *run) any {
	r.step()
	r.enter()
	defer r.leave()
	fn := e.fn.eval(r)
	c := r.arguments(e.args)
	if e.extra != nil {
		c.Named["caller"] = e.extra
	}
	switch f := fn.(type) {
	case Func:
		return wrap(f(c))
	case *loop:
		if f.again != nil {
			return f.again(c.arg(0))
		}
	}
	fail("line %d: %s cannot be called", e.line, kindOf(fn))
	return nil
}

func (r *run) arguments(a arguments) *Call {
	c := &Call{run: r, Named: map[string]any{}}
	for _, x := range a.pos {
		c.Args = append(c.Args, x.eval(r))
	}
	for i, x := range a.named {
		c.Named[a.names[i]] = x.eval(r)
	}
	return c
}

func (e filterExpr) eval(r *run) any {
	r.step()
	return wrap(filters[e.name](e.of.eval(r), r.arguments(e.args)))
}

func (e testExpr) eval(r *run) any {
	r.step()
	c := &Call{run: r}
	for _, x := range e.args {
		c.Args = append(c.Args, x.eval(r))
	}
	return tests[e.name](e.of.eval(r), c)
}

func (e ifExpr) eval(r *run) any {
	switch {
	case truth(e.cond.eval(r)):
		return e.then.eval(r)
	case e.other != nil:
		return e.other.eval(r)
	}
	return undefined{"the else of an inline if"}
}

func (e orExpr) eval(r *run) any {
	if v := e.a.eval(r); truth(v) {
		return v
	}
	return e.b.eval(r)
}

func (e andExpr) eval(r *run) any {
	if v := e.a.eval(r); !truth(v) {
		return v
	}
	return e.b.eval(r)
}

func (e notExpr) eval(r *run) any { return !truth(e.e.eval(r)) }

func (e negExpr) eval(r *run) any {
	switch v := e.e.eval(r).(type) {
	case int:
		return -v
	case float64:
		return -v
	default:
		fail("cannot negate %s", kindOf(v))
	}
	return nil
}

func (e compareExpr) eval(r *run) any {
	a := e.first.eval(r)
	for i, op := range e.ops {
		r.step()
		b := e.args[i].eval(r)
		if !r.compare(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (e binaryExpr) eval(r *run) any {
	r.step()
	a, b := e.a.eval(r), e.b.eval(r)
	if e.op == "~" {
		return r.join(r.str(a), r.str(b))
	}
	if s, ok := a.(string); ok && e.op == "+" {
		if t, ok := b.(string); ok {
			return r.join(s, t)
		}
	}
	if x, ok := a.(*list); ok && e.op == "+" {
		if y, ok := b.(*list); ok {
			r.charge(16 * (len(x.items) + len(y.items)))
			return &list{append(append([]any{}, x.items...), y.items...)}
		}
	}
	x, xi, ok := number(a)
	y, yi, ok2 := number(b)
	if !ok || !ok2 {
		fail("cannot compute %s %s %s", kindOf(a), e.op, kindOf(b))
	}
	return arith(e.op, x, y, xi && yi)
}

func (r *run) join(a, b string) string {
	r.charge(len(a) + len(b))
	return a + b
}

// arith computes with floats; results of integers that stay exact are integers again.
func arith(op string, x, y float64, ints bool) any {
	var v float64
	switch op {
	case "+":
		v = x + y
	case "-":
		v = x - y
	case "*":
		v = x * y
	case "**":
		v = math.Pow(x, y)
	default:
		if y == 0 {
			fail("division by zero")
		}
		switch op {
		case "/":
			return x / y
		case "//":
			v = math.Floor(x / y)
		case "%":
			v = x - y*math.Floor(x/y)
		}
	}
	if !ints {
		return v
	}
	if math.Abs(v) > 1<<53 {
		fail("integer out of range in %s", op)
	}
	return int(v)
}
