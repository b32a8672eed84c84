// Command tune finds out how to run 4-bit language models as fast as this machine can, and keeps
// what it proved.
package main

import (
	"os"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
)

func main() { os.Exit(realMain()) }

func realMain() int {
	app.MaybeServe()
	app.MaybeRun()
	if err := kernel.Supported(); err != nil {
		os.Stderr.WriteString("tune: " + err.Error() + "\n")
		return cli.ExitFailed
	}
	root, shared := cli.New("tune", "Find the fastest way to run 4-bit language models on this machine")
	tuneRoot(root, shared)
	addCommands(root, shared)
	return cli.Main(root)
}
