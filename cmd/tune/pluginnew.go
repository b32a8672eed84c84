package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

//go:embed scaffold
var scaffold embed.FS

// newPlugin is what the templates of a backend are filled with.
type newPlugin struct {
	Name, Binary, Module string
	Go                   string // language version
	Version              string // of this module, "" to let go mod tidy choose
	Replace              string // a checkout of this module, "" for none
}

func pluginNewCmd(s *cli.Shared) *cobra.Command {
	var dir, module, replace string
	c := &cobra.Command{
		Use: "new NAME", Short: "Write the module of a backend of your own, with a passing test", Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := describeNew(args[0], module, replace)
			if err != nil {
				return err
			}
			if dir == "" {
				dir = p.Binary
			}
			files, err := p.write(dir)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if s.JSON {
				return printJSON(w, map[string]any{"schema": 1, "dir": dir, "files": files})
			}
			for _, f := range files {
				fmt.Fprintln(w, filepath.Join(dir, f))
			}
			_, err = fmt.Fprintf(w, "next: cd %s && go mod tidy && go test ./... && go build -o %s .\n", dir, p.Binary)
			return err
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "where to write it (default ./"+wire.BinaryPrefix+"NAME)")
	c.Flags().StringVar(&module, "module", "", "module path (default example.com/"+wire.BinaryPrefix+"NAME)")
	c.Flags().StringVar(&replace, "replace", "", "use this checkout of github.com/tilewright/tilewright instead of a release")
	return c
}

var goVersion = regexp.MustCompile(`1\.\d+`)

func describeNew(name, module, replace string) (newPlugin, error) {
	p := newPlugin{Name: name, Binary: wire.BinaryPrefix + name, Module: module, Go: goVersion.FindString(runtime.Version()), Version: release()}
	switch {
	case !wire.ValidName(name):
		return p, cli.Usagef("%q cannot name a backend: up to 32 of a-z, 0-9, - and _", name)
	case app.Builtins()[name] != nil:
		return p, cli.Usagef("%q is the name of a built-in backend", name)
	}
	if p.Module == "" {
		p.Module = "example.com/" + p.Binary
	}
	if strings.ContainsAny(p.Module, " \t\n\"`\\") {
		return p, cli.Usagef("--module %q: not a module path", p.Module)
	}
	if replace == "" {
		return p, nil
	}
	abs, err := filepath.Abs(replace)
	if err != nil || !exists(filepath.Join(abs, "go.mod")) {
		return p, cli.Usagef("--replace %s: no go.mod there", replace)
	}
	p.Version, p.Replace = "v0.0.0", abs
	return p, nil
}

// release is the version of this program if it was built from a published one.
func release() string {
	v, _, _ := strings.Cut(cli.Version(), " ")
	if !strings.HasPrefix(v, "v") || strings.Contains(v, "+") || strings.HasPrefix(v, "v0.0.0-") {
		return ""
	}
	return v
}

// write fills the templates into dir, which must be empty or not exist.
func (p newPlugin) write(dir string) ([]string, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: choose another --dir", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	all, err := template.ParseFS(scaffold, "scaffold/*.tmpl")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var files []string
	for _, name := range []string{"go.mod", "main.go", "backend.go", "backend_test.go", "README.md"} {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, name+".tmpl", p); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	return files, nil
}
