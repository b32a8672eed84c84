package kernel_test

import (
	"errors"
	"testing"

	"github.com/tilewright/tilewright/kernel"
	"pgregory.net/rapid"
)

func space() kernel.Space {
	return kernel.Space{
		Version: "1",
		Params: []kernel.Param{
			{Name: "mr", Values: []int64{1, 2, 4, 8}, Default: 4},
			{Name: "cols", Values: []int64{1, 2}, Default: 1},
			{Name: "unpack", Values: []int64{0, 1}, Names: []string{"shift", "x16"}, Default: 0},
		},
		Constraints: []kernel.Constraint{
			{Doc: "accumulators and temporaries fit 16 registers", Terms: [][]string{{"mr", "cols"}, {"2", "cols"}, {"3"}}, Max: 16},
		},
	}
}

func TestSpaceCheck(t *testing.T) {
	for name, c := range map[string]struct {
		c  kernel.Config
		ok bool
	}{
		"default":       {kernel.Config{"mr": 4, "cols": 1, "unpack": 0}, true},
		"on the bound":  {kernel.Config{"mr": 4, "cols": 2, "unpack": 1}, true},
		"over it":       {kernel.Config{"mr": 8, "cols": 2, "unpack": 0}, false},
		"missing":       {kernel.Config{"mr": 4, "cols": 1}, false},
		"unknown":       {kernel.Config{"mr": 4, "cols": 1, "unpack": 0, "nr": 8}, false},
		"another value": {kernel.Config{"mr": 3, "cols": 1, "unpack": 0}, false},
		"nil":           {nil, false},
	} {
		err := space().Check(c.c)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, kernel.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSpaceValidate(t *testing.T) {
	if err := space().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*kernel.Space){
		"no name":               func(s *kernel.Space) { s.Params[0].Name = "" },
		"duplicate":             func(s *kernel.Space) { s.Params[0].Name = "cols" },
		"no values":             func(s *kernel.Space) { s.Params[1].Values = nil },
		"default not a value":   func(s *kernel.Space) { s.Params[1].Default = 3 },
		"names and values":      func(s *kernel.Space) { s.Params[2].Names = []string{"shift"} },
		"unknown in constraint": func(s *kernel.Space) { s.Constraints[0].Terms[0][0] = "nr" },
		"number with a tail":    func(s *kernel.Space) { s.Constraints[0].Terms[1][0] = "2mr" },
		"default breaks it":     func(s *kernel.Space) { s.Constraints[0].Max = 1 },
	} {
		s := space()
		spoil(&s)
		if s.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

// TestSpaceCheckAgrees compares Check with the plain meaning of the example space.
func TestSpaceCheckAgrees(t *testing.T) {
	s := space()
	rapid.Check(t, func(t *rapid.T) {
		c := kernel.Config{
			"mr":     rapid.Int64Range(0, 9).Draw(t, "mr"),
			"cols":   rapid.Int64Range(0, 3).Draw(t, "cols"),
			"unpack": rapid.Int64Range(0, 2).Draw(t, "unpack"),
		}
		mr, cols := c["mr"], c["cols"]
		want := (mr == 1 || mr == 2 || mr == 4 || mr == 8) && (cols == 1 || cols == 2) && c["unpack"] < 2 && mr*cols+2*cols+3 <= 16
		if got := s.Check(c) == nil; got != want {
			t.Fatalf("%s: allowed %t, want %t", c, got, want)
		}
	})
}

func TestConfigString(t *testing.T) {
	c := kernel.Config{"nr": 2, "a": -1, "mr": 8}
	if s := c.String(); s != "a=-1,mr=8,nr=2" {
		t.Errorf("canonical form is %q", s)
	}
	d := c.Clone()
	d["a"] = 5
	if c["a"] != -1 {
		t.Error("a clone shares its map")
	}
}
