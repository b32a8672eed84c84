package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
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
	Kernels []kernelRow `json:"kernels"` // of ops other than linear
}

type tensorRow struct {
	Tensor  string      `json:"tensor"` // in the file
	Role    string      `json:"role"`
	Layer   int         `json:"layer"` // -1: the head
	N       int         `json:"n"`
	K       int         `json:"k"`
	Source  string      `json:"source"` // type in the file
	Format  string      `json:"format"`
	Kept    bool        `json:"kept"`      // the stored values are met exactly
	Error   float64     `json:"rms_error"` // else: relative, of our form against the stored values
	Layout  string      `json:"layout"`
	Class   string      `json:"class"` // of the packed matrix that it is a part of
	Kernels []kernelRow `json:"kernels"`
}

type kernelRow struct {
	M       int    `json:"m,omitempty"` // rows at which it is tuned; sizes between inherit
	Problem string `json:"problem"`
	Backend string `json:"backend"`
	Config  string `json:"config"`
	Digest  string `json:"digest"` // of the artifact
	Key     string `json:"key"`
	Why     string `json:"why"`
}

func explain(cmd *cobra.Command, s *cli.Shared, f *app.ModelFlags) error {
	l, err := app.Load(cmd.Context(), s, f, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	x, err := l.Engine.Explain()
	if err != nil {
		return err
	}
	out := explained{Schema: 1, Model: l.Model.Spec.Name, Weights: string(l.Numerics.Weights), Tuning: string(l.Plan.Tuning),
		Line: l.Plan.Line, Key: l.KeyDigest(), Knobs: l.Engine.Options().Knobs}
	why := func(k engine.KernelInfo) kernelRow {
		return kernelRow{M: k.M, Problem: k.Problem.String(), Backend: k.Backend, Config: k.Config.String(), Digest: k.Digest, Key: k.Key,
			Why: l.Plan.Why(k.Problem)}
	}
	for _, m := range x.Matrices {
		row := tensorRow{Tensor: m.Tensor, Role: string(m.Role), Layer: m.Layer, N: m.N, K: m.K, Source: m.Type, Format: m.Format.String(),
			Kept: m.Kept, Error: m.Error, Layout: m.Layout.String(), Class: m.Class}
		if m.Tensor == "" {
			row.Tensor, row.Source = "synthetic", "random"
		}
		for _, k := range m.Kernels {
			row.Kernels = append(row.Kernels, why(k))
		}
		out.Tensors = append(out.Tensors, row)
	}
	for _, k := range x.Kernels {
		out.Kernels = append(out.Kernels, why(k))
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
		head := fmt.Sprintf("%d\t%s %s\t%s\t%s\t%.1e\t%s\t", t.Layer, t.Role, t.Tensor, t.Source, kept, t.Error, t.Layout)
		for _, k := range t.Kernels {
			fmt.Fprintf(tw, "%s%d\t%s %s\t%.12s\t%.12s\t%s\n", head, k.M, k.Backend, k.Config, k.Digest, k.Key, k.Why)
			head = "\t\t\t\t\t\t"
		}
	}
	for _, k := range e.Kernels {
		fmt.Fprintf(tw, "\t%s\t\t\t\t\t\t%s %s\t%.12s\t%.12s\t%s\n", k.Problem, k.Backend, k.Config, k.Digest, k.Key, k.Why)
	}
	return tw.Flush()
}
