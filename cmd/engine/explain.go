package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
)

func explainCmd(s *cli.Shared) *cobra.Command {
	f := &app.ModelFlags{}
	c := &cobra.Command{
		Use: "explain", Short: "Say tensor by tensor what is executed, and why", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explain(cmd, s, f) },
	}
	f.Register(c.Flags(), true)
	return c
}

// explained is what `engine explain --json` prints.
type explained struct {
	Schema  int         `json:"schema"`
	Model   string      `json:"model"`
	Weights string      `json:"weights"`
	Tuning  string      `json:"tuning"`
	Line    string      `json:"line"`
	Key     string      `json:"key"`
	Knobs   any         `json:"knobs"`
	Tensors []tensorRow `json:"tensors"`
}

type tensorRow struct {
	Tensor  string      `json:"tensor"`
	Layer   int         `json:"layer"`
	Source  string      `json:"source"` // type in the file, "synthetic" for a preset
	Format  string      `json:"format"`
	Kept    bool        `json:"kept"`
	Error   float64     `json:"rms_error"` // relative, of our form against the stored values
	Layout  string      `json:"layout"`
	Bytes   int         `json:"bytes"`
	Kernels []kernelRow `json:"kernels"`
}

type kernelRow struct {
	M       int    `json:"m"`
	Backend string `json:"backend"`
	Config  string `json:"config"`
	Digest  string `json:"digest"`
	Key     string `json:"key"`
	Why     string `json:"why"`
}

func explain(cmd *cobra.Command, s *cli.Shared, f *app.ModelFlags) error {
	l, err := app.Load(cmd.Context(), s, f, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	tensors, err := l.Engine.Explain(cmd.Context())
	if err != nil {
		return err
	}
	out := explained{Schema: 1, Model: l.Model.Spec.Name, Weights: string(l.Numerics.Weights), Tuning: string(l.Plan.Tuning),
		Line: l.Plan.Line, Key: l.KeyDigest(), Knobs: l.Engine.Options().Knobs}
	for _, t := range tensors {
		row := tensorRow{Tensor: t.Name, Layer: t.Layer, Source: t.Source, Format: t.Format.String(), Kept: t.Kept,
			Error: t.Error, Layout: t.Layout.String(), Bytes: t.Bytes}
		for _, k := range t.Kernels {
			row.Kernels = append(row.Kernels, kernelRow{M: k.M, Backend: k.Artifact.Key.Backend.Name, Config: k.Artifact.Key.Config.String(),
				Digest: k.Artifact.Digest(), Key: k.Artifact.Key.Digest(), Why: l.Plan.Why(k.Artifact.Key.Problem)})
		}
		out.Tensors = append(out.Tensors, row)
	}
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
	}
	return out.print(cmd)
}

func (e explained) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s, %s: %s\nkey %.16s\n", e.Model, e.Weights, e.Line, e.Key)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "LAYER\tTENSOR\tSOURCE\tEXECUTED\tERROR\tLAYOUT\tM\tKERNEL\tARTIFACT\tKEY\tWHY")
	for _, t := range e.Tensors {
		kept := "changed to " + t.Format
		if t.Kept {
			kept = "kept as " + t.Format
		}
		for i, k := range t.Kernels {
			if i == 0 {
				fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%.1e\t%s\t", t.Layer, t.Tensor, t.Source, kept, t.Error, t.Layout)
			} else {
				fmt.Fprint(tw, "\t\t\t\t\t\t")
			}
			fmt.Fprintf(tw, "%d\t%s %s\t%.12s\t%.12s\t%s\n", k.M, k.Backend, k.Config, k.Digest, k.Key, k.Why)
		}
	}
	return tw.Flush()
}
