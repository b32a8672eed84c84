package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

func pluginDescribeCmd(s *cli.Shared) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME|BIN [PROBLEM]", Short: "Print a backend's manifest, or what it may vary for a problem",
		Long: problemHelp, Args: rangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, w := cmd.Context(), cmd.OutOrStdout()
			b, err := openBackend(ctx, s, args[0])
			if err != nil {
				return err
			}
			defer b.Close()
			m, err := b.Manifest(ctx)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if s.JSON {
					return printJSON(w, description{1, wire.Description{Protocol: wire.ProtocolVersion, Manifest: listed(m)}})
				}
				return printManifest(w, m, b.ID().Digest)
			}
			p, err := readProblem(args[1])
			if err != nil {
				return err
			}
			h, err := app.NewHost(ctx, "")
			if err != nil {
				return err
			}
			sp, err := b.Space(ctx, withRequired(h.BackendFeatures(h.Features), m), p)
			if err != nil {
				return err
			}
			if s.JSON {
				sp.Params = nonNil(sp.Params)
				return printJSON(w, map[string]any{"schema": 1, "backend": b.ID(), "problem": p, "space": sp})
			}
			return printSpace(w, p, sp)
		},
	}
}

// description is what `tune plugin describe --json` prints.
type description struct {
	Schema int `json:"schema"`
	wire.Description
}

// listed is a manifest whose lists are none where they are empty, not null.
func listed(m kernel.Manifest) kernel.Manifest {
	m.Requires, m.Ops = nonNil(m.Requires), nonNil(m.Ops)
	return m
}

// withRequired adds the features that a backend requires: what is only printed runs nowhere.
func withRequired(f kernel.Features, m kernel.Manifest) kernel.Features {
	return kernel.NewFeatures(append(append([]string{}, f...), m.Requires...)...)
}

func rangeArgs(lo, hi int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || len(args) > hi {
			return cli.Usagef("want %d to %d arguments, got %d: %s", lo, hi, len(args), cmd.UseLine())
		}
		return nil
	}
}

const problemHelp = `PROBLEM is JSON, or a file that holds it, with the fields of a problem:

  {"op":"scale"}
  {"op":"linear","arith":"a8","m":1,"n":3072,"k":1024,
   "format":{"bits":4,"group":128,"offset":true,"scale_type":"f16"},
   "layout":{"lanes":16,"cols":2},"act":{"arith":"a8","group":128}}

Artifacts of the cache show the problems of a tuned model: tune cache show DIGEST.`

// readProblem parses a problem, strictly: a misspelt field would ask for something else.
func readProblem(arg string) (kernel.Problem, error) {
	var p kernel.Problem
	text, from := arg, "PROBLEM"
	if !strings.HasPrefix(strings.TrimSpace(arg), "{") {
		b, err := os.ReadFile(arg)
		if err != nil {
			return p, cli.Usagef("PROBLEM %q: neither JSON nor a file: %v", arg, err)
		}
		text, from = string(b), arg
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, cli.Usagef("%s: %v", from, err)
	}
	if p.Op == "" {
		return p, cli.Usagef("%s: no op", from)
	}
	return p, nil
}

func printManifest(w io.Writer, m kernel.Manifest, digest string) error {
	ops := make([]string, len(m.Ops))
	for i, op := range m.Ops {
		ops[i] = string(op)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range [][2]string{{"name", m.Name}, {"version", m.Version}, {"digest", digest}, {"what", m.Doc},
		{"emits", or(m.Arch, "portable") + " code"}, {"requires", or(strings.Join(m.Requires, " "), "nothing")},
		{"ops", strings.Join(ops, " ")}, {"reads", or(strings.Join(m.Env, " "), "no environment")}} {
		fmt.Fprintf(tw, "%s\t%s\n", r[0], r[1])
	}
	return tw.Flush()
}

func printSpace(w io.Writer, p kernel.Problem, sp kernel.Space) error {
	fmt.Fprintf(w, "%s, space version %s\n", p, sp.Version)
	if len(sp.Params) == 0 {
		_, err := fmt.Fprintln(w, "nothing varies: one configuration")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PARAMETER\tDEFAULT\tVALUES\tWHAT")
	for _, q := range sp.Params {
		values := make([]string, len(q.Values))
		def := ""
		for i, v := range q.Values {
			values[i] = fmt.Sprint(v)
			if i < len(q.Names) {
				values[i] += "=" + q.Names[i]
			}
			if v == q.Default {
				def = values[i]
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", q.Name, def, strings.Join(values, " "), q.Doc)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, k := range sp.Constraints {
		var terms []string
		for _, t := range k.Terms {
			terms = append(terms, strings.Join(t, "*"))
		}
		fmt.Fprintf(w, "%s <= %d: %s\n", strings.Join(terms, " + "), k.Max, k.Doc)
	}
	return nil
}
