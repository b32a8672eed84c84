package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/cli"
)

func cacheCmd(s *cli.Shared) *cobra.Command {
	c := group("cache", "Look after the store of tuned results")
	c.AddCommand(cacheLsCmd(s), cacheShowCmd(s), cacheExplainCmd(s), cacheVerifyCmd(s), cacheGCCmd(s),
		cacheExportCmd(s), cacheImportCmd(s), cacheKeygenCmd(s))
	return c
}

// group is a command that only holds others.
func group(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("unknown command %q of %s", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// openStore opens the store for its own sake: one that would fall back to memory is an error.
func openStore(s *cli.Shared, readOnly bool) (*cache.Store, error) {
	st := s.OpenCache(readOnly)
	if w := st.Warning(); w != "" {
		st.Close()
		return nil, fmt.Errorf("the cache cannot be used: %s", w)
	}
	return st, nil
}

func cacheLsCmd(s *cli.Shared) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List decisions, host rules and artifacts", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := openStore(s, true)
			if err != nil {
				return err
			}
			defer st.Close()
			list, err := st.List()
			if err != nil {
				return err
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"schema": 1, "dir": s.CacheDir, "entries": nonNil(list)})
			}
			if len(list) == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "no entries in %s\n", s.CacheDir)
				return err
			}
			return printInfos(cmd.OutOrStdout(), list)
		},
	}
}

func printInfos(w io.Writer, list []cache.Info) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "KIND\tDIGEST\tLAYER\tSIZE\tCREATED\tWHAT")
	for _, in := range list {
		created, what := "-", in.Title
		if !in.Created.IsZero() {
			created = in.Created.UTC().Format("2006-01-02 15:04")
		}
		if in.Problem != "" {
			what = strings.TrimSpace(what + " CANNOT BE USED: " + in.Problem)
		}
		fmt.Fprintf(tw, "%s\t%.12s\t%s\t%s\t%s\t%s\n", in.Kind, in.Digest, in.Layer, size(int64(in.Bytes)), created, what)
	}
	return tw.Flush()
}

func cacheShowCmd(s *cli.Shared) *cobra.Command {
	return &cobra.Command{
		Use: "show PREFIX", Short: "Print the entry whose digest starts with PREFIX", Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := openStore(s, true)
			if err != nil {
				return err
			}
			defer st.Close()
			in, rec, err := st.Show(args[0])
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if s.JSON {
				return printJSON(w, map[string]any{"schema": 1, "info": in, "record": rec})
			}
			if err := printInfos(w, []cache.Info{in}); err != nil || rec == nil {
				return err
			}
			fmt.Fprintln(w)
			return printRecord(w, rec)
		},
	}
}

// printRecord prints a record as JSON, less the bytes of code.
func printRecord(w io.Writer, rec any) error {
	if a, ok := rec.(*cache.ArtifactRecord); ok {
		short := *a
		n := len(a.Artifact.Code)
		short.Artifact.Code = nil
		if err := printJSON(w, short); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "%d bytes of code: see them with `tune plugin disasm`\n", n)
		return err
	}
	return printJSON(w, rec)
}

var errBadEntries = errors.New("entries cannot be used; they are misses until something writes them again: --remove deletes them")

func cacheVerifyCmd(s *cli.Shared) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use: "verify", Short: "Check every entry: envelope, digest, key, owner; name arms that are one code", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := openStore(s, !remove)
			if err != nil {
				return err
			}
			defer st.Close()
			bad, n, err := st.Verify(remove)
			if err != nil {
				return err
			}
			twins, err := st.Twins()
			if err != nil {
				return err
			}
			left := 0
			for _, in := range bad {
				if !remove || in.Layer != "user" {
					left++
				}
			}
			if err := printVerified(cmd.OutOrStdout(), s.JSON, bad, twins, n, len(bad)-left); err != nil || left == 0 {
				return err
			}
			return fmt.Errorf("%d %w", left, errBadEntries)
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "delete what cannot be used")
	return c
}

func printVerified(w io.Writer, asJSON bool, bad []cache.Info, twins []cache.Twins, n, removed int) error {
	if asJSON {
		return printJSON(w, map[string]any{"schema": 1, "checked": n, "bad": nonNil(bad), "twins": nonNil(twins), "removed": removed})
	}
	if len(bad) > 0 {
		if err := printInfos(w, bad); err != nil {
			return err
		}
	}
	for _, t := range twins {
		fmt.Fprintf(w, "one code %.12s under several configurations:\n", t.Code)
		for _, in := range t.Entries {
			fmt.Fprintf(w, "  %.12s  %s\n", in.Digest, in.Title)
		}
	}
	_, err := fmt.Fprintf(w, "%d checked, %d cannot be used, %d removed\n", n, len(bad), removed)
	return err
}

func cacheGCCmd(s *cli.Shared) *cobra.Command {
	var age, bytes string
	c := &cobra.Command{
		Use: "gc", Short: "Remove old entries, then the oldest until the rest fits", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			maxAge, err := parseAge(age)
			if err != nil {
				return err
			}
			maxBytes, err := parseSize(bytes)
			if err != nil {
				return err
			}
			st, err := openStore(s, false)
			if err != nil {
				return err
			}
			defer st.Close()
			gone, err := st.GC(maxAge, maxBytes)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if s.JSON {
				return printJSON(w, map[string]any{"schema": 1, "removed": nonNil(gone)})
			}
			if len(gone) > 0 {
				if err := printInfos(w, gone); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(w, "%d removed\n", len(gone))
			return err
		},
	}
	c.Flags().StringVar(&age, "max-age", "", "remove what is older: 720h, 30d (default: no limit)")
	c.Flags().StringVar(&bytes, "max-size", "", "bytes that may remain: 64MiB, 1GiB (default: no limit)")
	return c
}

func parseAge(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, cli.Usagef("--max-age %q: want a positive duration such as 720h or 30d", s)
	}
	return d, nil
}

func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	digits := strings.TrimRight(s, "KMGTiB")
	unit, ok := map[string]int64{"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20,
		"G": 1 << 30, "GiB": 1 << 30}[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n <= 0 || n > (1<<62)/unit {
		return 0, cli.Usagef("--max-size %q: want a positive number of bytes such as 1000000, 64MiB or 1GiB", s)
	}
	return n * unit, nil
}

// nonNil makes an empty list print as [].
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
