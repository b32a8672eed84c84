// Command engine runs language models with the kernels that tune found best for this machine.
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
	if err := kernel.Supported(); err != nil {
		os.Stderr.WriteString("engine: " + err.Error() + "\n")
		return cli.ExitFailed
	}
	root, shared := cli.New("engine", "Run 4-bit language models at the speed that tune found for this machine")
	root.AddCommand(runCmd(shared), benchCmd(shared), explainCmd(shared), profileCmd(shared),
		tokenizeCmd(shared), logitsCmd(shared))
	return cli.Main(root)
}
