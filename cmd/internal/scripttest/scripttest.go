package scripttest

import (
	"errors"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// Cmds are commands for scripts: "exits STATUS COMMAND..." checks a command's exit status, and
// "conforms FILE COMMAND" checks JSON, "stdout" of the command before, against the contract.
var Cmds = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "conforms": conforms}

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

func conforms(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: conforms FILE COMMAND")
	}
	if err := Conforms(args[1], []byte(ts.ReadFile(args[0]))); err != nil {
		ts.Fatalf("%s does not print what the contract says:\n%v", args[1], err)
	}
}
