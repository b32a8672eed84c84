package jinja

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// white is what Python strips.
const white = " \t\n\r\f\v\x1c\x1d\x1e\x1f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

// stringMethods are Python's, those that templates use.
var stringMethods = map[string]func(s string, c *Call) any{
	"strip":        strip(strings.Trim),
	"lstrip":       strip(strings.TrimLeft),
	"rstrip":       strip(strings.TrimRight),
	"lower":        func(s string, c *Call) any { return strings.ToLower(c.text(s)) },
	"upper":        func(s string, c *Call) any { return strings.ToUpper(c.text(s)) },
	"title":        func(s string, c *Call) any { return title(c.text(s)) },
	"capitalize":   func(s string, c *Call) any { return capitalize(c.text(s)) },
	"startswith":   affix(strings.HasPrefix),
	"endswith":     affix(strings.HasSuffix),
	"removeprefix": func(s string, c *Call) any { return strings.TrimPrefix(s, c.Text(0)) },
	"removesuffix": func(s string, c *Call) any { return strings.TrimSuffix(s, c.Text(0)) },
	"find":         func(s string, c *Call) any { return runeIndex(s, strings.Index(c.text(s), c.Text(0))) },
	"rfind":        func(s string, c *Call) any { return runeIndex(s, strings.LastIndex(c.text(s), c.Text(0))) },
	"count":        func(s string, c *Call) any { return strings.Count(c.text(s), c.Text(0)) },
	"isdigit":      func(s string, c *Call) any { return every(c.text(s), unicode.IsDigit) },
	"isalpha":      func(s string, c *Call) any { return every(c.text(s), unicode.IsLetter) },
	"isspace":      func(s string, c *Call) any { return every(c.text(s), unicode.IsSpace) },
	"replace":      replaceText,
	"split":        func(s string, c *Call) any { return split(c.text(s), c, false) },
	"rsplit":       func(s string, c *Call) any { return split(c.text(s), c, true) },
	"splitlines":   splitLines,
	"join":         func(s string, c *Call) any { return c.run.joinAll(c.run.items(c.arg(0)), s) },
}

var dictMethods = map[string]func(d *dict, c *Call) any{
	"items":  func(d *dict, c *Call) any { return d.items(c.run) },
	"keys":   func(d *dict, c *Call) any { c.run.charge(16 * len(d.keys)); return &list{append([]any{}, d.keys...)} },
	"values": func(d *dict, c *Call) any { return d.values(c.run) },
	"get": func(d *dict, c *Call) any {
		if c.run.contains(d, c.arg(0)) {
			return d.vals[c.arg(0)]
		}
		v, _ := c.opt(1, "default")
		return v
	},
}

var listMethods = map[string]func(l *list, c *Call) any{
	"index": func(l *list, c *Call) any {
		for i, x := range l.items {
			if c.run.equal(x, c.arg(0)) {
				return i
			}
		}
		fail("the item is not in the list")
		return nil
	},
	"count": func(l *list, c *Call) any {
		n := 0
		for _, x := range l.items {
			if c.run.equal(x, c.arg(0)) {
				n++
			}
		}
		return n
	},
}

func (d *dict) items(r *run) *list {
	r.charge(64 * len(d.keys))
	out := &list{}
	for _, k := range d.keys {
		out.items = append(out.items, &list{[]any{k, d.vals[k]}})
	}
	return out
}

func (d *dict) values(r *run) *list {
	r.charge(16 * len(d.keys))
	out := &list{}
	for _, k := range d.keys {
		out.items = append(out.items, d.vals[k])
	}
	return out
}

func strip(f func(s, cut string) string) func(string, *Call) any {
	return func(s string, c *Call) any {
		cut := white
		if len(c.Args) > 0 && c.Args[0] != nil {
			cut = c.Text(0)
		}
		return f(c.text(s), cut)
	}
}

// affix tests a prefix or suffix, or any of a list of them.
func affix(f func(s, x string) bool) func(string, *Call) any {
	return func(s string, c *Call) any {
		l, ok := c.arg(0).(*list)
		if !ok {
			return f(s, c.Text(0))
		}
		for _, x := range l.items {
			c.run.step()
			if f(s, c.run.str(x)) {
				return true
			}
		}
		return false
	}
}

func every(s string, class func(rune) bool) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !class(r) })
}

func runeIndex(s string, i int) int {
	if i < 0 {
		return -1
	}
	return len([]rune(s[:i]))
}

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

func title(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		was := inWord
		inWord = unicode.IsLetter(r)
		if was {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func replaceText(s string, c *Call) any {
	from, to, n := c.Text(0), c.Text(1), -1
	if v, ok := c.opt(2, "count"); ok && v != nil {
		n = integer(v)
	}
	found := strings.Count(c.text(s), from)
	if n < 0 || found < n {
		n = found
	}
	if len(to) > 0 && n > c.run.maxBytes/len(to) {
		c.run.charge(c.run.maxBytes)
	}
	c.run.charge(n * len(to))
	return strings.Replace(s, from, to, n)
}

// split is Python's split and, from the right, rsplit; without a separator at runs of white space.
func split(s string, c *Call, right bool) any {
	c.run.charge(16 * len(s))
	sep, given := c.opt(0, "sep")
	limit := math.MaxInt
	if v, ok := c.opt(1, "maxsplit"); ok && v != nil && integer(v) >= 0 {
		limit = integer(v)
	}
	var parts []string
	if !given || sep == nil {
		parts = strings.Fields(s)
		if limit < len(parts)-1 {
			fail("split at white space with a limit is not supported")
		}
	} else {
		text := c.run.str(sep)
		if text == "" {
			fail("empty separator")
		}
		parts = strings.Split(s, text)
		if n := len(parts) - 1 - limit; n > 0 && right {
			parts = append([]string{strings.Join(parts[:n+1], text)}, parts[n+1:]...)
		} else if n > 0 {
			parts = append(parts[:limit:limit], strings.Join(parts[limit:], text))
		}
	}
	return texts(parts)
}

func splitLines(s string, c *Call) any {
	c.run.charge(16 * len(s))
	if s == "" {
		return &list{}
	}
	return texts(strings.Split(strings.TrimSuffix(s, "\n"), "\n"))
}

func texts(parts []string) *list {
	out := &list{make([]any, len(parts))}
	for i, p := range parts {
		out.items[i] = p
	}
	return out
}

func (r *run) joinAll(items []any, sep string) string {
	var b strings.Builder
	for i, x := range items {
		r.step()
		if i > 0 {
			r.charge(len(sep))
			b.WriteString(sep)
		}
		s := r.str(x)
		r.charge(len(s))
		b.WriteString(s)
	}
	return b.String()
}
