package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/model"
	"github.com/tilewright/tilewright/kernel"
)

// dryReport is what `tune --host-profile --dry-run --json` prints.
type dryReport struct {
	Schema   int         `json:"schema"`
	Model    string      `json:"model"`
	CPU      string      `json:"cpu"`
	Threads  int         `json:"threads"`
	BudgetS  float64     `json:"budget_s"`
	Searches []drySearch `json:"searches"`
}

// drySearch is one kind of weights at one tuning point.
type drySearch struct {
	Weights        model.Weights `json:"weights"`
	Class          string        `json:"class"`
	M              int           `json:"m"`
	Backend        string        `json:"backend"`
	Parameters     int           `json:"parameters"`
	Configurations int           `json:"configurations"` // at most: constraints exclude some
	Default        kernel.Config `json:"default"`
}

// dryRun says what a tune would do.
func dryRun(cmd *cobra.Command, s *cli.Shared, m *model.Model, ns []model.Numerics, h *app.Host, b *app.Backends, f *tuneFlags) error {
	suite, err := b.Suite(cmd.Context())
	if err != nil {
		return err
	}
	rep := dryReport{Schema: 1, Model: m.Spec.Name, CPU: h.CPU.Name, Threads: f.knobs(h).ThreadsDecode,
		BudgetS: f.budget.Seconds(), Searches: []drySearch{}}
	for _, n := range ns {
		classes, err := m.Classes(n)
		if err != nil {
			return err
		}
		for _, c := range classes {
			got, err := f.dryClass(cmd.Context(), suite, n, c)
			if err != nil {
				return err
			}
			rep.Searches = append(rep.Searches, got...)
		}
	}
	if s.JSON {
		return printJSON(cmd.OutOrStdout(), rep)
	}
	return rep.print(cmd.OutOrStdout())
}

// dryClass lists the searches for a class: none for floats and for what no backend executes; the head
// runs on single rows only.
func (f *tuneFlags) dryClass(ctx context.Context, suite *kernel.Suite, n model.Numerics, c model.Class) ([]drySearch, error) {
	if c.Format.IsFloat() {
		return nil, nil
	}
	l, err := suite.Layout(ctx, c.Format)
	if errors.Is(err, kernel.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []drySearch
	for _, p := range []struct {
		objective string
		m         int
	}{{"decode", 1}, {"prefill", 512}} {
		if !slices.Contains(f.objective, p.objective) || p.m != 1 && c.Role == string(model.RoleHead) {
			continue
		}
		d, err := suite.Default(ctx, c.Problem(n.Weights, p.m, l))
		if errors.Is(err, kernel.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sp, err := suite.Backends[d.Backend].Space(ctx, suite.Host, d.Problem)
		if err != nil {
			return nil, err
		}
		size := 1
		for _, q := range sp.Params {
			size *= len(q.Values)
		}
		out = append(out, drySearch{n.Weights, c.String(), p.m, d.Backend, len(sp.Params), size, d.Config})
	}
	return out, nil
}

func (r *dryReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s on %s, %d threads, budget %.0f s\n", r.Model, r.CPU, r.Threads, r.BudgetS)
	for _, s := range r.Searches {
		_, e := fmt.Fprintf(w, "%s %-32s M=%-4d %s: %d parameters, up to %d configurations; default %s\n",
			s.Weights, s.Class, s.M, s.Backend, s.Parameters, s.Configurations, s.Default)
		err = errors.Join(err, e)
	}
	return err
}
