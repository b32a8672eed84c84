package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/scripttest"
	"github.com/tilewright/tilewright/engine/gguf/gguftest"
)

func TestMain(m *testing.M) {
	app.MaybeServe()
	testscript.Main(m, map[string]func(){"engine": func() { os.Exit(realMain()) }})
}

func TestScripts(t *testing.T) {
	models := gguftest.Find("models")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: scripttest.Cmds,
		Condition: func(cond string) (bool, error) {
			return cond == "shared" && models != "" || cond == "amd64" && runtime.GOARCH == "amd64", nil
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", filepath.Dir(models))
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
func TestSharedIsThere(t *testing.T) { gguftest.Shared(t, "models") }
