// Package scripttest is what the scripts that test the commands share: checks of exit status and of
// JSON output against the contract of the commands.
package scripttest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// contract is the table of what every command prints with --json: a line "# COMMAND", then lines
// "PATH TYPE". A path names fields with dots, elements of lists with [] and values of maps with {}.
// Types are number, string, bool, list, map and object; an object of which no field is listed may hold
// any. A type that ends with ? may be null, a path that begins with ? may be absent. What is not
// listed may not be printed: a field is added here or nowhere, and is never renamed.
//
//go:embed contract.txt
var contract string

// field is one line of the table.
type field struct {
	kind           string
	null, optional bool
}

// Commands lists the commands of the table.
func Commands() []string {
	var out []string
	for line := range strings.Lines(contract) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			out = append(out, strings.TrimSpace(name))
		}
	}
	return out
}

func fieldsOf(command string) map[string]field {
	out := map[string]field{}
	on := false
	for line := range strings.Lines(contract) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			on = name == command
			continue
		}
		path, kind, ok := strings.Cut(line, " ")
		if !on || !ok {
			continue
		}
		f := field{}
		path, f.optional = strings.CutPrefix(path, "?")
		f.kind, f.null = strings.CutSuffix(strings.TrimSpace(kind), "?")
		out[path] = f
	}
	return out
}

// Conforms checks a document against the table, field by field.
func Conforms(command string, doc []byte) error {
	fields := fieldsOf(command)
	if len(fields) == 0 {
		return fmt.Errorf("no contract for %q", command)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	c := checker{fields: fields}
	c.object("", "", v)
	return errors.Join(c.errs...)
}

type checker struct {
	fields map[string]field
	errs   []error
}

func (c *checker) fail(at, format string, a ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, a...)))
}

// object checks the fields of an object; at is where it is in the document, path in the table.
func (c *checker) object(at, path string, v any) {
	o, ok := v.(map[string]any)
	if !ok {
		c.fail(at, "%T, want an object", v)
		return
	}
	prefix := path
	if path != "" {
		prefix += "."
	}
	listed := 0
	for _, p := range slices.Sorted(maps.Keys(c.fields)) {
		name, ok := strings.CutPrefix(p, prefix)
		if !ok || strings.ContainsAny(name, ".[{") {
			continue
		}
		listed++
		if _, there := o[name]; !there && !c.fields[p].optional {
			c.fail(at+"."+name, "missing")
		}
	}
	if listed == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if f, ok := c.fields[prefix+name]; ok {
			c.value(at+"."+name, prefix+name, f, o[name])
		} else {
			c.fail(at+"."+name, "not in the contract")
		}
	}
}

func (c *checker) value(at, path string, f field, v any) {
	if v == nil {
		if !f.null {
			c.fail(at, "null")
		}
		return
	}
	is := false
	switch f.kind {
	case "number":
		_, is = v.(float64)
	case "string":
		_, is = v.(string)
	case "bool":
		_, is = v.(bool)
	case "object":
		c.object(at, path, v)
		return
	case "list":
		var list []any
		if list, is = v.([]any); is {
			for i, x := range list {
				c.value(fmt.Sprintf("%s[%d]", at, i), path+"[]", c.element(path+"[]"), x)
			}
		}
	case "map":
		var m map[string]any
		if m, is = v.(map[string]any); is {
			for k, x := range m {
				c.value(at+"{"+k+"}", path+"{}", c.element(path+"{}"), x)
			}
		}
	}
	if !is {
		c.fail(at, "%v, want %s", v, f.kind)
	}
}

// element is the type of what a list or a map holds: objects where the table does not say.
func (c *checker) element(path string) field {
	if f, ok := c.fields[path]; ok {
		return f
	}
	return field{kind: "object"}
}
