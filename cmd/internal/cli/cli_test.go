package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// Lists come from a file as lists, from the environment as they are typed; what is typed wins.
func TestDefaultsOfLists(t *testing.T) {
	for name, c := range map[string]struct {
		file, env  string
		args       []string
		slice, raw []string
		usage      bool
	}{
		"nothing":      {slice: []string{"x"}},
		"list":         {file: "many: [a, b]\nwhole: ['c,d', e]", slice: []string{"a", "b"}, raw: []string{"c,d", "e"}},
		"text":         {file: "many: a,b\nwhole: c,d", slice: []string{"a", "b"}, raw: []string{"c,d"}},
		"empty list":   {file: "many: []", slice: []string{}},
		"environment":  {file: "many: [a, b]", env: "c,d", slice: []string{"c", "d"}},
		"typed":        {file: "many: [a, b]", env: "c,d", args: []string{"--many", "e"}, slice: []string{"e"}},
		"list for one": {file: "one: [a, b]", usage: true},
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := New("x", "")
			var many, whole []string
			root.Flags().StringSliceVar(&many, "many", []string{"x"}, "")
			root.Flags().StringArrayVar(&whole, "whole", nil, "")
			root.Flags().String("one", "", "")
			root.RunE = func(*cobra.Command, []string) error { return nil }
			file := filepath.Join(t.TempDir(), "f.yaml")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.env != "" {
				t.Setenv("TILEWRIGHT_MANY", c.env)
			}
			root.SetArgs(append([]string{"--config", file}, c.args...))
			err := root.Execute()
			if c.usage {
				if !errors.Is(err, ErrUsage) {
					t.Errorf("%v, want a usage error", err)
				}
				return
			}
			if err != nil || !slices.Equal(many, c.slice) || !slices.Equal(whole, c.raw) {
				t.Errorf("many %q, whole %q, %v", many, whole, err)
			}
		})
	}
}
