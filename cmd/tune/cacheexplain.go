package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cache"
	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/tuner/resolve"
)

func cacheExplainCmd(s *cli.Shared) *cobra.Command {
	f := &app.ModelFlags{}
	c := &cobra.Command{
		Use: "explain [MODEL]", Short: "Say why each entry hits, misses or wants revalidation for a model",
		Long: "MODEL is a GGUF file or the name of a preset; --model and --preset do the same. The other flags must be\n" +
			"those that the engine runs with: they are part of what results are kept for.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("want one MODEL, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				nameModel(f, args[0])
			}
			t, err := target(cmd.Context(), s, f)
			if err != nil {
				return err
			}
			defer t.Model.Close()
			st, err := openStore(s, true)
			if err != nil {
				return err
			}
			defer st.Close()
			x, err := explain(st, t, s.CacheDir)
			if err != nil {
				return err
			}
			if s.JSON {
				return printJSON(cmd.OutOrStdout(), x)
			}
			return x.print(cmd.OutOrStdout())
		},
	}
	f.Register(c.Flags(), true)
	return c
}

// nameModel takes an argument for a file if there is one of that name or if it looks like one.
func nameModel(f *app.ModelFlags, arg string) {
	if _, err := os.Stat(arg); err == nil || strings.HasSuffix(arg, ".gguf") || strings.ContainsRune(arg, '/') {
		f.Model = arg
		return
	}
	f.Preset = arg
}

// target describes the model on this host as the engine does. The caller closes its Model.
func target(ctx context.Context, s *cli.Shared, f *app.ModelFlags) (t resolve.Target, err error) {
	ref, err := f.Ref()
	if err != nil {
		return t, err
	}
	n, err := f.Numerics()
	if err != nil {
		return t, err
	}
	h, err := app.NewHost(ctx, f.ISA)
	if err != nil {
		return t, err
	}
	b, err := app.NewBackends(ctx, h, s.PluginDir, s.CacheDir)
	if err != nil {
		return t, err
	}
	defer b.Close()
	m, err := app.OpenModel(ref)
	if err != nil {
		return t, err
	}
	return app.Target(h, b, m, n, f.Context, f.Pinned()), nil
}

// explained is what the cache says of a target.
type explained struct {
	Schema   int            `json:"schema"`
	Dir      string         `json:"dir"`
	Digest   string         `json:"digest"` // of the key
	Model    string         `json:"model"`
	Asked    string         `json:"asked"`
	Decision finding        `json:"decision"`
	Missing  []string       `json:"artifacts_missing"` // of the decision, to be emitted again
	Rules    []ruleFinding  `json:"rules"`
	Entries  []entryFinding `json:"entries"`
}

type finding struct {
	Status cache.Status `json:"status"`
	Layer  string       `json:"layer,omitempty"`
	Why    string       `json:"why,omitempty"`
	Diffs  []cache.Diff `json:"diffs"`
}

type ruleFinding struct {
	Format string `json:"format"`
	finding
}

type entryFinding struct {
	cache.Info
	Lookup finding `json:"lookup"`
}

func found(l cache.Lookup) finding { return finding{l.Status, l.Layer, l.Why, nonNil(l.Diffs)} }

func explain(st *cache.Store, t resolve.Target, dir string) (*explained, error) {
	key, err := t.DecisionKey()
	if err != nil {
		return nil, err
	}
	x := &explained{Schema: 1, Dir: dir, Digest: kernel.KeyDigest(key), Model: key.Model.Name, Missing: []string{},
		Asked: fmt.Sprintf("%s %s, %d CPUs, context %d", key.Weights, key.Phase, key.CPUs, key.Context)}
	d, look := st.Decision(key)
	x.Decision = found(look)
	for _, a := range d.Artifacts {
		if _, _, err := st.Show(a); err != nil {
			x.Missing = append(x.Missing, a)
		}
	}
	seen, keys := map[kernel.Format]bool{}, []cache.RuleKey{}
	for _, c := range key.Model.Classes {
		if !seen[c.Format] {
			seen[c.Format] = true
			keys = append(keys, t.RuleKey(c.Format))
			_, look := st.Rule(t.RuleKey(c.Format))
			x.Rules = append(x.Rules, ruleFinding{c.Format.String(), found(look)})
		}
	}
	list, err := st.Explain(key)
	if err != nil {
		return nil, err
	}
	rules, err := st.ExplainRules(keys)
	for _, e := range append(list, rules...) {
		x.Entries = append(x.Entries, entryFinding{e.Info, found(e.Lookup)})
	}
	x.Entries = nonNil(x.Entries)
	return x, err
}

func (x *explained) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s\nkey %s\n\n", x.Model, x.Asked, x.Digest)
	fmt.Fprintf(w, "decision: %s\n", x.Decision.verdict())
	if n := len(x.Missing); n > 0 {
		fmt.Fprintf(w, "  %s of it not in the cache: emitted again at the next load\n", count(n, "artifact"))
	}
	for _, r := range x.Rules {
		fmt.Fprintf(w, "host rule for %s: %s\n", r.Format, r.verdict())
	}
	if len(x.Entries) == 0 {
		_, err := fmt.Fprintf(w, "\nno decisions and no rules in %s: run tune --host-profile\n", x.Dir)
		return err
	}
	for _, e := range x.Entries {
		fmt.Fprintf(w, "\n%.12s  %s (%s)\n  %s\n", e.Digest, e.Title, e.Layer, e.Lookup.verdict())
		if err := printDiffs(w, e.Lookup.Diffs); err != nil {
			return err
		}
	}
	return nil
}

// verdict says hit for an exact match.
func (f finding) verdict() string {
	word := string(f.Status)
	if f.Status == cache.Exact {
		word = "hit"
	}
	if f.Why != "" {
		word += ": " + f.Why
	}
	return word
}

// maxDiffs bounds what is printed of an entry: another model differs in everything.
const maxDiffs = 12

func printDiffs(w io.Writer, diffs []cache.Diff) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, d := range diffs {
		if i == maxDiffs {
			fmt.Fprintf(tw, "  and %d more (--json prints all)\n", len(diffs)-i)
			break
		}
		fmt.Fprintf(tw, "  %s\t%s\tstored %s\tasked %s\n", d.Class, d.Path, quoted(d.Have), quoted(d.Want))
	}
	return tw.Flush()
}

func quoted(s string) string {
	if s == "" {
		return `""`
	}
	return s
}
