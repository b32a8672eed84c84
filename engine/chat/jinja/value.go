package jinja

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Call is one call of a function, filter or method.
type Call struct {
	Args  []any
	Named map[string]any
	run   *run
}

// Func is a function that a template may call; it panics only through Fail.
type Func func(c *Call) any

// Fail ends the rendering with the template's own message.
func (c *Call) Fail(message string) { panic(failure{&Error{message}}) }

// Text is argument i as text, "" if absent.
func (c *Call) Text(i int) string { return c.run.str(c.arg(i)) }

// arg is argument i, undefined if absent.
func (c *Call) arg(i int) any {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return undefined{"argument"}
}

// opt is argument i or the one of that name; ok says whether it was given.
func (c *Call) opt(i int, name string) (any, bool) {
	if i < len(c.Args) {
		return c.Args[i], true
	}
	v, ok := c.Named[name]
	return v, ok
}

type (
	undefined struct{ name string }
	list      struct{ items []any }
	dict      struct {
		keys []any // hashable: nil, bool, int, float64, string
		vals map[any]any
	}
	namespace struct{ vars map[string]any }
)

// Dict is a dictionary whose order is kept.
type Dict = []Item

// Item is one entry of a Dict.
type Item struct {
	Key   string
	Value any
}

func newDict() *dict { return &dict{vals: map[any]any{}} }

func (d *dict) set(k, v any) {
	switch k.(type) {
	case nil, bool, int, float64, string:
	default:
		fail("%s cannot be a key", kindOf(k))
	}
	if _, ok := d.vals[k]; !ok {
		d.keys = append(d.keys, k)
	}
	d.vals[k] = v
}

// wrap turns a value of Go into one of the template.
func wrap(v any) any {
	switch v := v.(type) {
	case []any:
		l := &list{make([]any, len(v))}
		for i, x := range v {
			l.items[i] = wrap(x)
		}
		return l
	case map[string]any:
		d := newDict()
		for _, k := range slices.Sorted(maps.Keys(v)) {
			d.set(k, wrap(v[k]))
		}
		return d
	case Dict:
		d := newDict()
		for _, it := range v {
			d.set(it.Key, wrap(it.Value))
		}
		return d
	}
	return v
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case undefined:
		return "undefined " + shorten(v.name)
	case bool:
		return "a boolean"
	case int, float64:
		return "a number"
	case string:
		return "a string"
	case *list:
		return "a list"
	case *dict:
		return "a dictionary"
	}
	return "an object"
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// number is the value of an integer, float or boolean, and whether it is not a float.
func number(v any) (f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true, true
		}
		return 0, true, true
	case int:
		return float64(v), true, true
	case float64:
		return v, false, true
	}
	return 0, false, false
}

// items lists what a loop over v visits.
func (r *run) items(v any) []any {
	switch v := v.(type) {
	case *list:
		return v.items
	case *dict:
		return v.keys
	case string:
		r.charge(16 * len(v))
		out := make([]any, 0, len(v))
		for _, c := range v {
			out = append(out, string(c))
		}
		return out
	case undefined:
		return nil
	}
	fail("%s cannot be iterated", kindOf(v))
	return nil
}

// str is Python's str().
func (r *run) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	var b strings.Builder
	r.repr(&b, v)
	return b.String()
}

// repr is Python's repr().
func (r *run) repr(b *strings.Builder, v any) {
	r.step()
	r.enter()
	defer r.leave()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(floatText(v))
	case string:
		r.charge(len(v))
		q := "'"
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			q = `"`
		}
		b.WriteString(q + strings.NewReplacer("\\", `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`, q, "\\"+q).Replace(v) + q)
	case *list:
		r.sequence(b, "[", "]", len(v.items), func(i int) { r.repr(b, v.items[i]) })
	case *dict:
		r.sequence(b, "{", "}", len(v.keys), func(i int) {
			r.repr(b, v.keys[i])
			b.WriteString(": ")
			r.repr(b, v.vals[v.keys[i]])
		})
	default:
		fmt.Fprintf(b, "<%s>", strings.TrimPrefix(kindOf(v), "an "))
	}
}

func (r *run) sequence(b *strings.Builder, open, end string, n int, item func(int)) {
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		item(i)
	}
	b.WriteString(end)
}

func floatText(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e16 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
