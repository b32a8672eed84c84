package kernel

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Param is one thing that a backend may vary. All parameters are integers with a finite list of
// values (booleans are 0 and 1); Names, if given, says what each value means.
type Param struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Values  []int64  `json:"values"`
	Names   []string `json:"names,omitempty"`
	Default int64    `json:"default"`
}

// Constraint bounds a sum of products of parameters: sum over Terms of the product of the named
// parameters (a term may be an integer literal's name such as "4") must be <= Max.
type Constraint struct {
	Doc   string     `json:"doc"`
	Terms [][]string `json:"terms"`
	Max   int64      `json:"max"`
}

// Space is the set of configurations of one problem.
type Space struct {
	Version     string       `json:"version"` // changes when the meaning of a parameter does
	Params      []Param      `json:"params"`
	Constraints []Constraint `json:"constraints,omitempty"`
}

// Config assigns a value to every parameter of a space.
type Config map[string]int64

// String is canonical: name=value in name order, comma separated.
func (c Config) String() string {
	names := make([]string, 0, len(c))
	for n := range c {
		names = append(names, n)
	}
	sort.Strings(names)
	for i, n := range names {
		names[i] = fmt.Sprintf("%s=%d", n, c[n])
	}
	return strings.Join(names, ",")
}

// Clone copies a configuration.
func (c Config) Clone() Config {
	out := make(Config, len(c))
	for k, v := range c {
		out[k] = v
	}
	return out
}

// Default is the configuration made of the declared defaults.
func (s Space) Default() Config {
	c := make(Config, len(s.Params))
	for _, p := range s.Params {
		c[p.Name] = p.Default
	}
	return c
}

// ErrConfig is wrapped by every error about a configuration that a space does not allow.
var ErrConfig = errors.New("configuration not in the space")

// Check reports the first way in which c is not a member of s.
func (s Space) Check(c Config) error {
	for _, p := range s.Params {
		v, ok := c[p.Name]
		if !ok {
			return fmt.Errorf("%w: parameter %q is missing", ErrConfig, p.Name)
		}
		if !slices.Contains(p.Values, v) {
			return fmt.Errorf("%w: %s=%d, allowed are %v", ErrConfig, p.Name, v, p.Values)
		}
	}
	if len(c) != len(s.Params) {
		for n := range c {
			if !slices.ContainsFunc(s.Params, func(p Param) bool { return p.Name == n }) {
				return fmt.Errorf("%w: unknown parameter %q", ErrConfig, n)
			}
		}
	}
	for _, k := range s.Constraints {
		if sum := k.eval(c); sum > k.Max {
			return fmt.Errorf("%w: %s (%d > %d)", ErrConfig, k.Doc, sum, k.Max)
		}
	}
	return nil
}

func (k Constraint) eval(c Config) int64 {
	var sum int64
	for _, term := range k.Terms {
		prod := int64(1)
		for _, name := range term {
			v, ok := c[name]
			if !ok {
				v, _ = strconv.ParseInt(name, 10, 64)
			}
			prod *= v
		}
		sum += prod
	}
	return sum
}

// Validate reports a space that could not be searched: an empty or duplicate parameter, a default
// outside the values, a constraint over an unknown name, a default that breaks a constraint.
func (s Space) Validate() error {
	seen := map[string]bool{}
	for _, p := range s.Params {
		switch {
		case p.Name == "" || seen[p.Name]:
			return fmt.Errorf("kernel: space: empty or duplicate parameter %q", p.Name)
		case len(p.Values) == 0:
			return fmt.Errorf("kernel: space: parameter %q has no values", p.Name)
		case !slices.Contains(p.Values, p.Default):
			return fmt.Errorf("kernel: space: default %d of %q is not one of its values", p.Default, p.Name)
		case len(p.Names) != 0 && len(p.Names) != len(p.Values):
			return fmt.Errorf("kernel: space: parameter %q names %d of %d values", p.Name, len(p.Names), len(p.Values))
		}
		seen[p.Name] = true
	}
	for _, k := range s.Constraints {
		for _, term := range k.Terms {
			for _, n := range term {
				if _, err := strconv.ParseInt(n, 10, 64); err != nil && !seen[n] {
					return fmt.Errorf("kernel: space: constraint %q names unknown parameter %q", k.Doc, n)
				}
			}
		}
	}
	return s.Check(s.Default())
}
