package jinja

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filters are what may follow "|". It is filled by init, as filters may call others by name.
var filters map[string]func(v any, c *Call) any

func init() {
	filters = map[string]func(v any, c *Call) any{
		"trim":       func(v any, c *Call) any { return strip(strings.Trim)(c.run.str(v), c) },
		"lower":      func(v any, c *Call) any { return strings.ToLower(c.text(v)) },
		"upper":      func(v any, c *Call) any { return strings.ToUpper(c.text(v)) },
		"title":      func(v any, c *Call) any { return title(c.text(v)) },
		"capitalize": func(v any, c *Call) any { return capitalize(c.text(v)) },
		"replace":    func(v any, c *Call) any { return replaceText(c.run.str(v), c) },
		"string":     func(v any, c *Call) any { return c.run.str(v) },
		"safe":       func(v any, c *Call) any { return c.run.str(v) },
		"escape":     escapeHTML, "e": escapeHTML,
		"length": length, "count": length,
		"first":   func(v any, c *Call) any { return c.run.index(&list{c.run.items(v)}, 0) },
		"last":    func(v any, c *Call) any { return c.run.index(&list{c.run.items(v)}, -1) },
		"list":    func(v any, c *Call) any { return &list{slices.Clone(c.run.items(v))} },
		"items":   itemsOf,
		"join":    join,
		"reverse": reverse,
		"sort":    sortItems, "unique": unique, "dictsort": dictSort,
		"default": orDefault, "d": orDefault,
		"int": toInt, "float": toFloat, "abs": abs, "round": round,
		"sum": func(v any, c *Call) any { return total(c.run.items(v)) },
		"min": func(v any, c *Call) any { return extreme(c.run, v, "<") },
		"max": func(v any, c *Call) any { return extreme(c.run, v, ">") },
		"map": mapItems, "tojson": toJSON, "indent": indent,
		"select":     func(v any, c *Call) any { return choose(v, c, false, true) },
		"reject":     func(v any, c *Call) any { return choose(v, c, false, false) },
		"selectattr": func(v any, c *Call) any { return choose(v, c, true, true) },
		"rejectattr": func(v any, c *Call) any { return choose(v, c, true, false) },
	}
}

func length(v any, c *Call) any {
	switch v := v.(type) {
	case string:
		c.run.charge(len(v))
		return utf8.RuneCountInString(v)
	case undefined:
		return 0
	}
	return len(c.run.items(v))
}

func itemsOf(v any, c *Call) any {
	switch v := v.(type) {
	case *dict:
		return v.items(c.run)
	case undefined:
		return &list{}
	}
	fail("%s has no items", kindOf(v))
	return nil
}

func escapeHTML(v any, c *Call) any {
	s := c.text(v)
	c.run.charge(4 * len(s))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func join(v any, c *Call) any {
	sep, _ := c.opt(0, "d")
	items := c.run.items(v)
	if name, ok := c.opt(1, "attribute"); ok {
		items = c.run.project(items, name)
	}
	if sep == nil {
		sep = ""
	}
	return c.run.joinAll(items, c.run.str(sep))
}

// project takes the attribute "a.b" of each item.
func (r *run) project(items []any, name any) []any {
	out := make([]any, len(items))
	for i, x := range items {
		for _, part := range strings.Split(r.str(name), ".") {
			r.step()
			if n, err := strconv.Atoi(part); err == nil {
				x = r.index(x, n)
			} else {
				x = r.index(x, part)
			}
		}
		out[i] = x
	}
	return out
}

func reverse(v any, c *Call) any {
	out := slices.Clone(c.run.items(v))
	slices.Reverse(out)
	if _, ok := v.(string); ok {
		return c.run.joinAll(out, "")
	}
	return &list{out}
}

func sortItems(v any, c *Call) any {
	items := slices.Clone(c.run.items(v))
	keys := items
	if name, ok := c.opt(2, "attribute"); ok && name != nil {
		keys = c.run.project(items, name)
	}
	down, _ := c.opt(0, "reverse")
	exact, _ := c.opt(1, "case_sensitive")
	return &list{sorted(c.run, items, keys, truth(down), truth(exact))}
}

func sorted(r *run, items, keys []any, down, exact bool) []any {
	type pair struct{ key, item any }
	ps := make([]pair, len(items))
	for i := range items {
		k := keys[i]
		if s, ok := k.(string); ok && !exact {
			k = strings.ToLower(s)
		}
		ps[i] = pair{k, items[i]}
	}
	slices.SortStableFunc(ps, func(a, b pair) int {
		r.step()
		if down {
			a, b = b, a
		}
		return r.order(a.key, b.key)
	})
	out := make([]any, len(ps))
	for i, p := range ps {
		out[i] = p.item
	}
	return out
}

func unique(v any, c *Call) any {
	out := &list{}
	for _, x := range c.run.items(v) {
		if !c.run.contains(out, x) {
			out.items = append(out.items, x)
		}
	}
	return out
}

func dictSort(v any, c *Call) any {
	d, ok := v.(*dict)
	if !ok {
		fail("dictsort needs a dictionary, not %s", kindOf(v))
	}
	return &list{sorted(c.run, d.items(c.run).items, d.keys, false, false)}
}

func orDefault(v any, c *Call) any {
	falsy, _ := c.opt(1, "boolean")
	if isUndefined(v) || truth(falsy) && !truth(v) {
		d, ok := c.opt(0, "default_value")
		if !ok {
			return ""
		}
		return d
	}
	return v
}

// mapItems: map(attribute=...) or map(filter, ...).
func mapItems(v any, c *Call) any {
	items := c.run.items(v)
	c.run.charge(16 * len(items))
	if name, ok := c.Named["attribute"]; ok {
		out := c.run.project(items, name)
		if d, ok := c.Named["default"]; ok {
			for i := range out {
				if isUndefined(out[i]) {
					out[i] = d
				}
			}
		}
		return &list{out}
	}
	f, ok := filters[c.Text(0)]
	if !ok {
		fail("unknown filter %s", shorten(c.Text(0)))
	}
	out := &list{}
	for _, x := range items {
		c.run.step()
		out.items = append(out.items, wrap(f(x, &Call{Args: c.Args[1:], Named: c.Named, run: c.run})))
	}
	return out
}

// choose keeps the items for which a test (truth, if none is named) says want.
func choose(v any, c *Call, byAttr, want bool) any {
	items := c.run.items(v)
	keys, args := items, c.Args
	if byAttr {
		keys = c.run.project(items, c.arg(0))
		args = args[min(1, len(args)):]
	}
	test := func(v any, _ *Call) bool { return truth(v) }
	if len(args) > 0 {
		t, ok := tests[c.run.str(args[0])]
		if !ok {
			fail("unknown test %s", shorten(c.run.str(args[0])))
		}
		test, args = t, args[1:]
	}
	out := &list{}
	for i, x := range items {
		c.run.step()
		if test(keys[i], &Call{Args: args, run: c.run}) == want {
			out.items = append(out.items, x)
		}
	}
	return out
}

func indent(v any, c *Call) any {
	width := 4
	if w, ok := c.opt(0, "width"); ok {
		width = min(max(integer(w), 0), 1000)
	}
	first, _ := c.opt(1, "first")
	blank, _ := c.opt(2, "blank")
	pad := strings.Repeat(" ", width)
	s := c.text(v)
	c.run.charge(strings.Count(s, "\n") * width)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if (i > 0 || truth(first)) && (l != "" || truth(blank)) {
			lines[i] = pad + l
		}
	}
	return strings.Join(lines, "\n")
}
