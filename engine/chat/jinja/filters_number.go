package jinja

import (
	"math"
	"strconv"
	"strings"
)

func toInt(v any, c *Call) any {
	if f, _, ok := number(v); ok && math.Abs(f) < 1<<53 {
		return int(f)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(c.run.str(v))); err == nil {
		return n
	}
	d, ok := c.opt(0, "default")
	if !ok {
		return 0
	}
	return d
}

func toFloat(v any, c *Call) any {
	if f, _, ok := number(v); ok {
		return f
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(c.run.str(v)), 64)
	if err != nil {
		return 0.0
	}
	return f
}

func abs(v any, _ *Call) any {
	f, isInt, ok := number(v)
	if !ok {
		fail("abs needs a number, not %s", kindOf(v))
	}
	if isInt {
		return int(math.Abs(f))
	}
	return math.Abs(f)
}

func round(v any, c *Call) any {
	f, _, ok := number(v)
	if !ok {
		fail("round needs a number, not %s", kindOf(v))
	}
	digits, _ := c.opt(0, "precision")
	p := 1.0
	if n, ok := digits.(int); ok {
		p = math.Pow(10, float64(n))
	}
	return math.RoundToEven(f*p) / p
}

func total(items []any) any {
	var sum any = 0
	for _, x := range items {
		a, ai, _ := number(sum)
		b, bi, ok := number(x)
		if !ok {
			fail("sum needs numbers, not %s", kindOf(x))
		}
		sum = arith("+", a, b, ai && bi)
	}
	return sum
}

func extreme(r *run, v any, op string) any {
	var best any = undefined{"item"}
	for i, x := range r.items(v) {
		r.step()
		if i == 0 || r.compare(op, x, best) {
			best = x
		}
	}
	return best
}
