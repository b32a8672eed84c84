package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/plugins/conformance"
)

func pluginTestCmd(s *cli.Shared) *cobra.Command {
	var o conformance.Options
	c := &cobra.Command{
		Use: "test NAME|BIN", Short: "Hold a backend against the contract: the conformance kit", Args: cli.ExactArgs(1),
		Long: "Check manifest, spaces, refusals, deterministic emission, artifacts, parameters that act, and numbers against\n" +
			"the oracles. Generated code runs in a disposable process: a crash is a line of the report.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Problems < 1 || o.Configs < 1 {
				return cli.Usagef("--problems and --configs must be at least 1")
			}
			ctx := cmd.Context()
			h, err := app.NewHost(ctx, "")
			if err != nil {
				return err
			}
			o.Features = h.BackendFeatures(h.Features)
			b, err := openBackend(ctx, s, args[0])
			if err != nil {
				return err
			}
			defer b.Close()
			r := conformance.Run(ctx, b, o)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if s.JSON {
				r.Manifest = listed(r.Manifest)
				err = printJSON(cmd.OutOrStdout(), conformanceJSON{1, r})
			} else {
				err = r.Write(cmd.OutOrStdout())
			}
			if err == nil && !r.Passed {
				err = errors.New("the backend does not conform")
			}
			return err
		},
	}
	c.Flags().IntVar(&o.Problems, "problems", 16, "problems of each op")
	c.Flags().IntVar(&o.Configs, "configs", 3, "random configurations of each problem, besides the default")
	c.Flags().BoolVar(&o.Emission, "emission", false, "check emission only, run nothing")
	return c
}

type conformanceJSON struct {
	Schema int `json:"schema"`
	conformance.Report
}
