// Package jinja runs the part of the Jinja template language that chat templates use, with
// trim_blocks and lstrip_blocks on, as Hugging Face runs them. A template comes with a downloaded
// model and is not trusted: it reaches no file, no clock but the one it is given and nothing of the
// host; nesting, steps and bytes are bounded, so that it ends soon and in little memory whatever
// it says. A general engine leaves out those bounds: a recursive macro alone would end the process.
package jinja

import (
	"fmt"
	"strings"
)

// Limits of one rendering, far above what a real template needs.
const (
	baseSteps = 1 << 18  // nodes evaluated, items visited
	varSteps  = 256      // the same, more for each value that the caller passes
	baseBytes = 16 << 20 // bytes of text made or searched
	varBytes  = 64       // the same, more for each byte that the caller passes
	maxDepth  = 100      // nested expressions, blocks and calls
	maxChain  = 1000     // operators or calls one after another in an expression
	maxSource = 1 << 18  // bytes of a template
)

// Template is a parsed template, safe for concurrent use.
type Template struct{ body []stmt }

// Error is a template's own complaint, made by raise_exception.
type Error struct{ Message string }

func (e *Error) Error() string { return fmt.Sprintf("the template refuses: %q", e.Message) }

// failure carries an error through the recursion of parser and evaluator.
type failure struct{ err error }

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// Parse reads a template.
func Parse(source string) (t *Template, err error) {
	defer rescue(&err)
	if len(source) > maxSource {
		return nil, fmt.Errorf("template of %d bytes is too long (at most %d)", len(source), maxSource)
	}
	p := &parser{toks: lex(source)}
	body := p.block()
	if p.at(tokStmt) {
		fail("line %d: unexpected {%% %s %%}", p.line(), shorten(p.peekName()))
	}
	return &Template{body}, nil
}

// Render runs the template. Values of vars are nil, bool, int, float64, string, []any,
// map[string]any (visited in key order), Dict and Func.
func (t *Template) Render(vars map[string]any) (out string, err error) {
	defer rescue(&err)
	r := &run{scope: newScope(nil), out: &strings.Builder{}, maxSteps: baseSteps, maxBytes: baseBytes}
	for k, v := range builtins {
		r.scope.set(k, v)
	}
	for k, v := range vars {
		w := wrap(v)
		r.allow(w)
		r.scope.set(k, w)
	}
	r.exec(t.body)
	return r.out.String(), nil
}

// run is the state of one rendering.
type run struct {
	scope               *scope
	out                 *strings.Builder
	steps, bytes, depth int
	maxSteps, maxBytes  int
}

func (r *run) step() {
	if r.steps++; r.steps > r.maxSteps {
		fail("the template was stopped after %d steps", r.maxSteps)
	}
}

// charge counts n bytes of text.
func (r *run) charge(n int) {
	if r.bytes += n; r.bytes > r.maxBytes || n < 0 {
		fail("the template was stopped after %d bytes of text", r.maxBytes)
	}
}

func (r *run) enter() {
	if r.depth++; r.depth > maxDepth {
		fail("the template nests or recurses more than %d deep", maxDepth)
	}
}

func (r *run) leave() { r.depth-- }

// scope holds the variables of a block, few as a rule; names are looked up outwards.
type scope struct {
	names []string
	vals  []any
	outer *scope
}

func newScope(outer *scope) *scope { return &scope{outer: outer} }

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.outer {
		for i, n := range s.names {
			if n == name {
				return s.vals[i], true
			}
		}
	}
	return nil, false
}

func (s *scope) set(name string, v any) {
	for i, n := range s.names {
		if n == name {
			s.vals[i] = v
			return
		}
	}
	s.names, s.vals = append(s.names, name), append(s.vals, v)
}

// allow raises the limits by the size of a variable.
func (r *run) allow(v any) {
	r.maxSteps += varSteps
	switch v := v.(type) {
	case string:
		r.maxBytes += varBytes * len(v)
	case *list:
		for _, x := range v.items {
			r.allow(x)
		}
	case *dict:
		for _, k := range v.keys {
			r.allow(v.vals[k])
		}
	}
}

// shorten keeps error messages short.
func shorten(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return fmt.Sprintf("%q", s)
}
