package main

import (
	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/cli"
)

func benchCmd(s *cli.Shared) *cobra.Command { return &cobra.Command{Use: "bench"} }
