package grid

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Value finds what a path names in a decoded JSON document. Steps are separated by dots: the name of
// a field or the index of an element; a name may be followed by [field=value], which selects the
// first element of a list whose field has that value: results[test=tg128].median_ts.
func Value(doc any, path string) (any, error) {
	at := doc
	for _, step := range splitPath(path) {
		name, sel, _ := strings.Cut(step, "[")
		var err error
		if name != "" {
			if at, err = child(at, name); err != nil {
				return nil, fmt.Errorf("path %q: %w", path, err)
			}
		}
		if sel == "" {
			continue
		}
		if at, err = choose(at, strings.TrimSuffix(sel, "]")); err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
	}
	return at, nil
}

// splitPath cuts at the dots outside brackets: values may hold dots.
func splitPath(path string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range path {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '.' && depth == 0:
			out, from = append(out, path[from:i]), i+1
		}
	}
	return append(out, path[from:])
}

func child(at any, name string) (any, error) {
	switch v := at.(type) {
	case map[string]any:
		if x, ok := v[name]; ok {
			return x, nil
		}
		return nil, fmt.Errorf("no field %q", name)
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v) {
			return nil, fmt.Errorf("no element %q of a list of %d", name, len(v))
		}
		return v[i], nil
	}
	return nil, fmt.Errorf("%q of a %T", name, at)
}

func choose(at any, sel string) (any, error) {
	field, want, ok := strings.Cut(sel, "=")
	list, isList := at.([]any)
	if !ok || !isList {
		return nil, fmt.Errorf("[%s] wants field=value of a list", sel)
	}
	for _, x := range list {
		if m, ok := x.(map[string]any); ok && m[field] != nil && text(m[field]) == want {
			return x, nil
		}
	}
	return nil, fmt.Errorf("no element with %s=%s in a list of %d", field, want, len(list))
}

// text is a string as it is, anything else as JSON: maps by sorted key, so that equal values are
// equal texts.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// Read takes the values of a spec's metrics, an arm's evidence and the work done out of the document
// that a run printed. A metric that is missing or no number is left out, for the judge to report;
// missing evidence is an error. tree is the greatest RssAnon of the run's process tree.
func (s *Spec) Read(doc any, a Arm, tree int64) (Result, error) {
	r := Result{Values: map[string]float64{}, Tree: tree}
	for _, m := range s.Metrics {
		if m.Path == Tree {
			r.Values[m.Name] = float64(tree)
			continue
		}
		if v, err := Value(doc, cmp.Or(m.Path, m.Name)); err == nil {
			if x, ok := v.(float64); ok {
				r.Values[m.Name] = x
			}
		}
	}
	for _, path := range slices.Concat(a.Evidence, slices.Sorted(maps.Keys(a.Expect))) {
		v, err := Value(doc, path)
		if err != nil {
			return r, fmt.Errorf("evidence: %w", err)
		}
		if shown := text(v); slices.Contains([]string{"", "null", "{}", "[]"}, shown) {
			return r, fmt.Errorf("evidence: %q is %q, which shows nothing", path, shown)
		}
		if r.Evidence == nil {
			r.Evidence = map[string]string{}
		}
		r.Evidence[path] = text(v)
	}
	if s.Nonce != "" {
		if v, err := Value(doc, s.Nonce); err == nil { // else the judge finds none
			r.Echo = text(v)
		}
	}
	if s.Work != "" {
		v, err := Value(doc, s.Work)
		x, ok := v.(float64)
		if err != nil || !ok {
			return r, fmt.Errorf("work: no number at %q", s.Work)
		}
		n := int64(x)
		r.Work = &n
	}
	return r, nil
}
