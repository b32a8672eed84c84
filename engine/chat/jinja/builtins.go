package jinja

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
)

// builtins are the functions that every template sees.
var builtins = map[string]any{
	"range":           Func(rangeOf),
	"raise_exception": Func(func(c *Call) any { c.Fail(c.Text(0)); return nil }),
	"dict": Func(func(c *Call) any {
		d := newDict()
		if src, ok := c.arg(0).(*dict); ok {
			for _, k := range src.keys {
				c.run.step()
				d.set(k, src.vals[k])
			}
		}
		for _, k := range slices.Sorted(maps.Keys(c.Named)) {
			d.set(k, c.Named[k])
		}
		return d
	}),
	"namespace": Func(func(c *Call) any {
		ns := &namespace{map[string]any{}}
		for k, v := range c.Named {
			ns.vars[k] = v
		}
		return ns
	}),
}

func rangeOf(c *Call) any {
	start, stop, step := 0, integer(c.arg(0)), 1
	if len(c.Args) > 1 {
		start, stop = stop, integer(c.arg(1))
	}
	if len(c.Args) > 2 {
		step = integer(c.arg(2))
	}
	if step == 0 {
		fail("range with step 0")
	}
	n := math.Ceil((float64(stop) - float64(start)) / float64(step))
	if n <= 0 {
		return &list{}
	}
	if n > float64(c.run.maxSteps) {
		fail("the template was stopped: a range of %.0f items", n)
	}
	c.run.charge(16 * int(n))
	out := &list{make([]any, int(n))}
	for i := range out.items {
		out.items[i] = start + i*step
	}
	return out
}

// toJSON is Python's json.dumps(ensure_ascii=False): ", " and ": " between items, or lines.
func toJSON(v any, c *Call) any {
	var b strings.Builder
	width := -1
	if w, ok := c.opt(0, "indent"); ok && w != nil {
		width = min(max(integer(w), 0), 100)
	}
	c.run.json(&b, v, width, 0)
	return b.String()
}

func (r *run) json(b *strings.Builder, v any, width, level int) {
	r.step()
	r.enter()
	defer r.leave()
	switch v := v.(type) {
	case string:
		r.charge(2 * len(v))
		b.WriteString(quoteJSON(v))
	case *list:
		r.jsonItems(b, "[", "]", len(v.items), width, level, func(i int) {
			r.json(b, v.items[i], width, level+1)
		})
	case *dict:
		r.jsonItems(b, "{", "}", len(v.keys), width, level, func(i int) {
			k, ok := v.keys[i].(string)
			if !ok {
				k = r.str(v.keys[i])
			}
			b.WriteString(quoteJSON(k) + ": ")
			r.json(b, v.vals[v.keys[i]], width, level+1)
		})
	case nil:
		b.WriteString("null")
	case bool:
		if v {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case int, float64:
		b.WriteString(r.str(v))
	default:
		fail("%s has no form in JSON", kindOf(v))
	}
}

func (r *run) jsonItems(b *strings.Builder, open, end string, n, width, level int, item func(int)) {
	line := func(level int) {
		if width >= 0 && n > 0 {
			r.charge(width * level)
			b.WriteString("\n" + strings.Repeat(" ", width*level))
		}
	}
	b.WriteString(open)
	for i := range n {
		if i > 0 && width >= 0 {
			b.WriteString(",")
		} else if i > 0 {
			b.WriteString(", ")
		}
		line(level + 1)
		item(i)
	}
	line(level)
	b.WriteString(end)
}

// quoteJSON leaves characters beyond ASCII and the HTML ones as they are.
func quoteJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string always encodes
	q := strings.TrimSuffix(b.String(), "\n")
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(q)
}
