package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/internal/srcdigest"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/host"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

func pluginCmd(s *cli.Shared) *cobra.Command {
	c := group("plugin", "List, describe, test and write backends")
	c.AddCommand(pluginLsCmd(s), pluginDescribeCmd(s), pluginTestCmd(s), pluginNewCmd(s), pluginDisasmCmd(s))
	return c
}

// pluginRow is one backend of the listing.
type pluginRow struct {
	Name     string      `json:"name"`
	Version  string      `json:"version"`
	Doc      string      `json:"doc"`
	Source   string      `json:"source"` // "built in" or the file
	Digest   string      `json:"digest"`
	Arch     string      `json:"arch"`
	Requires []string    `json:"requires"`
	Ops      []kernel.Op `json:"ops"`
	Usable   bool        `json:"usable"`
	Why      string      `json:"why,omitempty"` // it is not
}

const builtIn = "built in"

func pluginLsCmd(s *cli.Shared) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List built-in and installed backends, and why one is not used", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := app.NewHost(cmd.Context(), "")
			if err != nil {
				return err
			}
			rows, err := listPlugins(cmd.Context(), s.PluginDir, h.Features)
			if err != nil {
				return err
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"schema": 1, "dir": s.PluginDir, "plugins": rows})
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "NAME\tVERSION\tDIGEST\tSOURCE\tUSED")
			for _, r := range rows {
				used := "yes"
				if !r.Usable {
					used = "no: " + r.Why
				}
				fmt.Fprintf(tw, "%s\t%s\t%.12s\t%s\t%s\n", r.Name, r.Version, or(r.Digest, "-"), r.Source, used)
			}
			return tw.Flush()
		},
	}
}

func listPlugins(ctx context.Context, dir string, features kernel.Features) ([]pluginRow, error) {
	var rows []pluginRow
	all := app.Builtins()
	for _, name := range order(all) {
		m, err := all[name].Manifest(ctx)
		rows = append(rows, row(m, builtIn, srcdigest.Backend(name), err, features))
	}
	found, err := host.Discover(ctx, dir, "", host.Options{})
	if err != nil {
		return nil, fmt.Errorf("plugin directory: %w", err)
	}
	for _, f := range found {
		err := f.Err
		if _, taken := all[f.Manifest.Name]; taken && err == nil {
			err = errors.New("its name is taken by a built-in backend")
		}
		r := row(f.Manifest, f.Source.Path, f.Digest, err, features)
		r.Name = or(r.Name, or(f.Source.Name, filepath.Base(f.Source.Path)))
		rows = append(rows, r)
	}
	return rows, nil
}

// order is that in which the engine tries built-in backends.
func order(all map[string]kernel.Backend) []string {
	return kernel.Suite{Backends: all}.Names()
}

func row(m kernel.Manifest, source, digest string, err error, features kernel.Features) pluginRow {
	r := pluginRow{Name: m.Name, Version: m.Version, Doc: m.Doc, Source: source, Digest: digest, Arch: m.Arch,
		Requires: nonNil(m.Requires), Ops: nonNil(m.Ops)}
	missing := features.Missing(m.Requires)
	switch {
	case err != nil:
		r.Why = err.Error()
	case m.Arch != "" && m.Arch != runtime.GOARCH:
		r.Why = fmt.Sprintf("it emits %s code, this is %s", m.Arch, runtime.GOARCH)
	case len(missing) > 0:
		r.Why = "this CPU lacks " + strings.Join(missing, " ")
	default:
		r.Usable = true
	}
	return r
}

// openBackend starts the backend that an argument names: a built-in, one of the plugin directory, or
// an executable. The caller closes it.
func openBackend(ctx context.Context, s *cli.Shared, arg string) (*host.Plugin, error) {
	src, err := backendSource(s, arg)
	if err != nil {
		return nil, err
	}
	return host.Open(ctx, src, host.Options{})
}

func backendSource(s *cli.Shared, arg string) (host.Source, error) {
	all := app.Builtins()
	if all[arg] != nil {
		return host.Builtin(arg, srcdigest.Backend(arg)), nil
	}
	path := arg
	if !strings.ContainsRune(arg, '/') && wire.ValidName(arg) && s.PluginDir != "" {
		if in := filepath.Join(s.PluginDir, wire.BinaryPrefix+arg); exists(in) {
			path = in
		}
	}
	if !exists(path) {
		return host.Source{}, cli.Usagef("no backend %q: want one of %s, NAME of a %sNAME in %s, or the path of an executable",
			arg, strings.Join(slices.Sorted(maps.Keys(all)), ", "), wire.BinaryPrefix, or(s.PluginDir, "the plugin directory"))
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return host.Source{}, err
	}
	return host.External(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
