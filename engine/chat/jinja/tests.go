package jinja

import "strings"

// tests are what may follow "is".
var tests = map[string]func(v any, c *Call) bool{
	"defined":   func(v any, _ *Call) bool { return !isUndefined(v) },
	"undefined": func(v any, _ *Call) bool { return isUndefined(v) },
	"none":      func(v any, _ *Call) bool { return v == nil },
	"string":    isA[string],
	"boolean":   isA[bool],
	"integer":   isA[int],
	"float":     isA[float64],
	"mapping":   isA[*dict],
	"callable":  isA[Func],
	"number":    func(v any, c *Call) bool { return isA[int](v, c) || isA[float64](v, c) },
	"sequence":  isIterable,
	"iterable":  isIterable,
	"true":      func(v any, _ *Call) bool { return v == true },
	"false":     func(v any, _ *Call) bool { return v == false },
	"odd":       func(v any, _ *Call) bool { return integer(v)%2 != 0 },
	"even":      func(v any, _ *Call) bool { return integer(v)%2 == 0 },
	"divisibleby": func(v any, c *Call) bool {
		return arith("%", float64(integer(v)), float64(integer(c.arg(0))), true) == 0
	},
	"in": func(v any, c *Call) bool { return c.run.contains(c.arg(0), v) },
	"eq": comparison("=="), "equalto": comparison("=="), "sameas": comparison("=="),
	"ne": comparison("!="), "lt": comparison("<"), "lessthan": comparison("<"), "le": comparison("<="),
	"gt": comparison(">"), "greaterthan": comparison(">"), "ge": comparison(">="),
	"lower": func(v any, c *Call) bool { s := c.text(v); return s == strings.ToLower(s) },
	"upper": func(v any, c *Call) bool { s := c.text(v); return s == strings.ToUpper(s) },
}

func isUndefined(v any) bool { _, ok := v.(undefined); return ok }

func isA[T any](v any, _ *Call) bool { _, ok := v.(T); return ok }

func isIterable(v any, _ *Call) bool {
	switch v.(type) {
	case string, *list, *dict:
		return true
	}
	return false
}

func comparison(op string) func(any, *Call) bool {
	return func(v any, c *Call) bool { return c.run.compare(op, v, c.arg(0)) }
}

func integer(v any) int {
	i, ok := v.(int)
	if !ok {
		fail("expected an integer, not %s", kindOf(v))
	}
	return i
}

// text is v as text, charged as read.
func (c *Call) text(v any) string {
	s := c.run.str(v)
	c.run.charge(len(s))
	return s
}
