package main

import (
	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/cli"
)

// addCommands adds the sub-commands.
func addCommands(root *cobra.Command, s *cli.Shared) {
	root.AddCommand(hostCmd(s), cacheCmd(s), pluginCmd(s), compareCmd(s), reportCmd(s), noiseCmd(s))
}
