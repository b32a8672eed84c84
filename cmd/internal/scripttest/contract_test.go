package scripttest

import (
	"slices"
	"strings"
	"testing"
)

func TestConforms(t *testing.T) {
	const good = `{"prompt_ids":[1],"ids":[2],"text":"x","finish":"stop","timings":{"prompt_n":1,"prompt_s":1,"predicted_n":1,"predicted_s":1,"load_s":1}}`
	if err := Conforms("engine run", []byte(good)); err != nil {
		t.Error(err)
	}
	for from, to := range map[string]string{
		`"text":"x",`:        ``,                    // missing
		`"text":"x"`:         `"text":7`,            // of another type
		`"text":`:            `"content":`,          // renamed
		`"ids":[2]`:          `"ids":null`,          // null
		`"prompt_ids":[1]`:   `"prompt_ids":["a"]`,  // of another type in a list
		`"load_s":1`:         `"load_s":1,"more":1`, // not in the table
		`"predicted_s":1,`:   ``,                    // missing below
		`}}`:                 `}} {}`,
		`{"prompt_ids":[1],`: `[`,
	} {
		bad := strings.Replace(good, from, to, 1)
		if err := Conforms("engine run", []byte(bad)); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
	if err := Conforms("engine frob", []byte(good)); err == nil {
		t.Error("a command without a contract")
	}
}

// Every line of the table can be read, and says each thing once.
func TestTable(t *testing.T) {
	kinds := []string{"number", "string", "bool", "list", "map", "object"}
	names := Commands()
	if slices.Sort(names); len(names) < 15 || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("commands %q", names)
	}
	for _, name := range names {
		for path, f := range fieldsOf(name) {
			if !slices.Contains(kinds, f.kind) {
				t.Errorf("%s: %s is a %q", name, path, f.kind)
			}
		}
	}
	seen := map[string]bool{}
	command := ""
	for line := range strings.Lines(contract) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "# ") {
			command = line
		}
		path, _, _ := strings.Cut(strings.TrimPrefix(line, "?"), " ")
		if line != "" && seen[command+path] && !strings.HasPrefix(line, "# ") {
			t.Errorf("%s: %s twice", command, path)
		}
		seen[command+path] = true
	}
}
