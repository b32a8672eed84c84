package jinja

import "strings"

// A stmt writes to the output or changes variables; jump says that a loop is to be left or continued.
type stmt interface{ exec(r *run) jump }

type jump int

const (
	jumpNone jump = iota
	jumpBreak
	jumpContinue
)

type (
	dataStmt   struct{ text string }
	printStmt  struct{ e expr }
	groupStmt  struct{ body []stmt }
	jumpStmt   struct{ leave bool }
	doStmt     struct{ e expr }
	filterStmt struct {
		f    filterExpr
		body []stmt
	}
	ifStmt struct {
		conds  []expr
		bodies [][]stmt
		other  []stmt
	}
	forStmt struct {
		names       []string
		over, cond  expr
		recursive   bool
		body, empty []stmt
	}
	setStmt struct {
		names []string
		attr  string // set name.attr
		val   expr
		body  []stmt // {% set x %}...{% endset %}; val filters it
		line  int
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr
		body     []stmt
	}
	callStmt struct {
		call   callExpr
		caller *macroStmt
	}
)

func (r *run) exec(body []stmt) jump {
	r.enter()
	defer r.leave()
	for _, s := range body {
		r.step()
		if j := s.exec(r); j != jumpNone {
			return j
		}
	}
	return jumpNone
}

// capture returns what a block writes.
func (r *run) capture(body []stmt) string {
	saved := r.out
	r.out = &strings.Builder{}
	r.exec(body)
	text := r.out.String()
	r.out = saved
	return text
}

func (r *run) write(s string) {
	r.charge(len(s))
	r.out.WriteString(s)
}

func (s dataStmt) exec(r *run) jump  { r.write(s.text); return jumpNone }
func (s printStmt) exec(r *run) jump { r.write(r.str(s.e.eval(r))); return jumpNone }
func (s groupStmt) exec(r *run) jump { return r.exec(s.body) }
func (s doStmt) exec(r *run) jump    { s.e.eval(r); return jumpNone }

func (s jumpStmt) exec(*run) jump {
	if s.leave {
		return jumpBreak
	}
	return jumpContinue
}

func (s filterStmt) exec(r *run) jump {
	s.f.of = constExpr{r.capture(s.body)}
	r.write(r.str(s.f.eval(r)))
	return jumpNone
}

func (s ifStmt) exec(r *run) jump {
	for i, c := range s.conds {
		if truth(c.eval(r)) {
			return r.exec(s.bodies[i])
		}
	}
	return r.exec(s.other)
}

func (s setStmt) exec(r *run) jump {
	if s.body != nil {
		r.bind("", r.capture(s.body))
	}
	v := s.val.eval(r)
	switch {
	case s.attr != "":
		old, _ := r.scope.get(s.names[0])
		ns, ok := old.(*namespace)
		if !ok {
			fail("line %d: %s is not a namespace", s.line, shorten(s.names[0]))
		}
		ns.vars[s.attr] = v
	case len(s.names) == 1:
		r.bind(s.names[0], v)
	default:
		r.unpack(s.names, v)
	}
	return jumpNone
}

func (r *run) bind(name string, v any) { r.scope.set(name, v) }

func (r *run) unpack(names []string, v any) {
	if len(names) == 1 {
		r.bind(names[0], v)
		return
	}
	items := r.items(v)
	if len(items) != len(names) {
		fail("cannot unpack %d items to %d names", len(items), len(names))
	}
	for i, n := range names {
		r.bind(n, items[i])
	}
}

func (s *macroStmt) exec(r *run) jump {
	r.bind(s.name, s.bindTo(r.scope))
	return jumpNone
}

// bindTo makes a function of a macro that sees the variables where it was defined.
func (s *macroStmt) bindTo(outer *scope) Func {
	return func(c *Call) any {
		r := c.run
		saved := r.scope
		r.scope = newScope(outer)
		defer func() { r.scope = saved }()
		if len(c.Args) > len(s.params) {
			fail("macro %s takes %d arguments, not %d", shorten(s.name), len(s.params), len(c.Args))
		}
		for i, name := range s.params {
			switch v, named := c.Named[name]; {
			case i < len(c.Args):
				r.bind(name, c.Args[i])
			case named:
				r.bind(name, v)
			case s.defaults[i] != nil:
				r.bind(name, s.defaults[i].eval(r))
			default:
				r.bind(name, undefined{name})
			}
		}
		if v, ok := c.Named["caller"]; ok {
			r.bind("caller", v)
		}
		return r.capture(s.body)
	}
}

func (s callStmt) exec(r *run) jump {
	c := s.call
	c.extra = s.caller.bindTo(r.scope)
	r.write(r.str(c.eval(r)))
	return jumpNone
}
