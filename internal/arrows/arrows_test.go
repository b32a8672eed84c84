// Package arrows holds one test: imports between the project's folders run one way.
package arrows

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/tilewright/tilewright/"

// rules list, for each folder (the longest prefix wins), the folders of the project that its
// non-test code may import. An entry covers what lies below it; a folder may import within itself.
var rules = map[string][]string{
	"kernel":              {},
	"kernel/asm":          {},
	"kernel/jit":          {"kernel"},
	"kernel/ref":          {"kernel"},
	"plugins/x86":         {"kernel", "kernel/asm"},
	"plugins/amx":         {"kernel", "kernel/asm", "plugins/sdk", "plugins/x86"},
	"plugins/avx512":      {"kernel", "kernel/asm", "plugins/sdk", "plugins/x86"},
	"plugins/avxvnni":     {"kernel", "kernel/asm", "plugins/sdk", "plugins/x86"},
	"plugins/avx2":        {"kernel", "kernel/asm", "plugins/sdk", "plugins/x86"},
	"plugins/neon":        {"kernel", "kernel/asm", "plugins/sdk"},
	"plugins/generic":     {"kernel", "kernel/ref", "plugins/sdk"},
	"plugins/proto":       {"kernel"},
	"plugins/sdk":         {"kernel", "plugins/proto"},
	"plugins/host":        {"kernel", "plugins/proto", "plugins/sdk"},
	"plugins/conformance": {"kernel", "kernel/ref", "kernel/jit", "plugins/host", "plugins/sdk", "plugins/proto"},
	"engine":              {"kernel", "kernel/jit", "kernel/ref"},
	"search":              {"kernel"},
	"cache":               {"kernel"},
	"tuner":               {"kernel", "kernel/jit", "kernel/ref", "plugins", "engine", "search", "cache", "internal"},
	"cmd":                 {"kernel", "kernel/jit", "kernel/ref", "plugins", "engine", "search", "cache", "tuner", "internal"},
	"internal":            {"kernel", "kernel/asm", "kernel/jit", "internal"},
}

// onlyIn lists libraries that one folder keeps to itself.
var onlyIn = map[string]string{
	"github.com/spf13/viper":      "cmd",
	"github.com/spf13/cobra":      "cmd",
	"github.com/vbauerster/mpb":   "cmd",
	"github.com/hashicorp/":       "plugins",
	"google.golang.org/grpc":      "plugins",
	"google.golang.org/protobuf/": "plugins",
}

func TestImportsRunOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	n := 0
	for dec.More() {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		rule, folder := ruleOf(from)
		if folder == "" {
			t.Errorf("%s is in no known folder: add it to the rules and to ARCHITECTURE.md", from)
			continue
		}
		n++
		for _, imp := range p.Imports {
			if to, ok := strings.CutPrefix(imp, module); ok {
				if !within(to, folder) && !allowed(to, rule) {
					t.Errorf("%s imports %s: %s may import only %v", from, to, folder, rule)
				}
				continue
			}
			for lib, home := range onlyIn {
				if strings.HasPrefix(imp, lib) && !within(from, home) {
					t.Errorf("%s imports %s, which belongs to %s", from, imp, home)
				}
			}
		}
	}
	if n < 5 {
		t.Fatalf("go list named only %d packages: the test saw nothing", n)
	}
}

func ruleOf(path string) (rule []string, folder string) {
	for f := path; f != "." && f != "/"; f = filepath.Dir(f) {
		if r, ok := rules[f]; ok {
			return r, f
		}
	}
	return nil, ""
}

// allowed reports whether to lies in an allowed folder, but not in a deeper one with its own rule
// unless that one is named too (kernel does not open kernel/ref).
func allowed(to string, rule []string) bool {
	_, folder := ruleOf(to)
	for _, r := range rule {
		if folder == r || within(folder, r) && !strings.HasPrefix(r, "kernel") {
			return true
		}
	}
	return false
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
