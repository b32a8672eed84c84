package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tilewright/tilewright/cmd/internal/app"
)

func TestMain(m *testing.M) {
	app.MaybeServe()
	testscript.Main(m, map[string]func(){"engine": func() { os.Exit(realMain()) }})
}

// shared finds the folder of reference data beside the checkout.
func shared() string {
	if d := os.Getenv("TILEWRIGHT_SHARED"); d != "" {
		return d
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, e := os.Stat(filepath.Join(dir, "shared", "models")); e == nil {
			return filepath.Join(dir, "shared")
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Condition: func(cond string) (bool, error) {
			return cond == "shared" && shared() != "" || cond == "amd64" && runtime.GOARCH == "amd64", nil
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", shared())
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("HOME", e.WorkDir)
			for _, kv := range os.Environ() { // settings of the machine that runs the tests
				if k, _, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "TILEWRIGHT_") && k != "TILEWRIGHT_SHARED" {
					e.Setenv(k, "")
				}
			}
			return nil
		},
	})
}

// TestSharedIsThere is here so that a run without the reference data says so.
func TestSharedIsThere(t *testing.T) {
	if shared() == "" {
		t.Skip("shared: no reference data beside the checkout")
	}
}

// exits STATUS COMMAND... checks a command's exit status.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}
