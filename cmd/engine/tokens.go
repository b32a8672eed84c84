package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine/tokenizer"
)

func tokenizeCmd(s *cli.Shared) *cobra.Command {
	var path string
	var o tokenizer.Options
	c := &cobra.Command{
		Use: "tokenize TEXT", Short: "Print the token ids of a text", Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if path == "" {
				return cli.Usagef("no model: give --model FILE.gguf")
			}
			tok, _, err := openTokenizer(path, false)
			if err != nil {
				return err
			}
			ids := tok.Encode(args[0], o)
			if s.JSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"ids": append([]int{}, ids...)})
			}
			words := make([]string, len(ids))
			for i, id := range ids {
				words[i] = strconv.Itoa(id)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(words, " "))
			return err
		},
	}
	c.Flags().StringVar(&path, "model", "", "GGUF file")
	c.Flags().BoolVar(&o.ParseSpecial, "parse-special", false, "text of control tokens becomes those tokens")
	c.Flags().BoolVar(&o.AddSpecial, "add-special", false, "add the tokens that the vocabulary asks for at the ends")
	return c
}

func logitsCmd(s *cli.Shared) *cobra.Command {
	f := &app.ModelFlags{}
	var ids string
	var all bool
	var top int
	c := &cobra.Command{
		Use: "logits", Short: "Print the logits after a list of token ids", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := parseIDs(ids)
			if err != nil {
				return err
			}
			if top < 0 {
				return cli.Usagef("--top %d: want 0 (all) or more", top)
			}
			return logits(cmd, s, f, list, all, top)
		},
	}
	f.Register(c.Flags(), true)
	c.Flags().StringVar(&ids, "ids", "", "token ids, comma separated")
	c.Flags().BoolVar(&all, "all", false, "logits of every position, not only the last")
	c.Flags().IntVar(&top, "top", 0, "only the best so many; 0 prints all")
	return c
}

func parseIDs(s string) ([]int, error) {
	if s == "" {
		return nil, cli.Usagef("no tokens: give --ids 1,2,3")
	}
	var out []int
	for _, w := range strings.Split(s, ",") {
		id, err := strconv.Atoi(strings.TrimSpace(w))
		if err != nil || id < 0 {
			return nil, cli.Usagef("--ids: %q is not a token id", w)
		}
		out = append(out, id)
	}
	return out, nil
}

// scored is a token and its logit.
type scored struct {
	ID    int     `json:"id"`
	Logit float32 `json:"logit"`
}

func best(x []float32, n int) []scored {
	out := make([]scored, len(x))
	for i, v := range x {
		out[i] = scored{i, v}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Logit > out[j].Logit })
	return out[:min(n, len(out))]
}

func logits(cmd *cobra.Command, s *cli.Shared, f *app.ModelFlags, ids []int, all bool, top int) error {
	l, err := app.Load(cmd.Context(), s, f, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	l.Say(s)
	session, err := l.Engine.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	out := map[string]any{"n_vocab": l.Model.Spec.Vocab}
	render := func(x []float32) any {
		if top > 0 {
			return best(x, top)
		}
		return append([]float32{}, x...)
	}
	var rows []any
	if all {
		err = session.All(cmd.Context(), ids, func(_ int, x []float32) { rows = append(rows, render(x)) })
	} else {
		var last []float32
		last, err = session.Prefill(cmd.Context(), ids)
		rows = append(rows, render(last))
	}
	if err != nil {
		return err
	}
	name := "last"
	if top > 0 {
		name = "top"
	}
	out[name] = rows[len(rows)-1]
	if all {
		out["all"] = rows
	}
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
	}
	return printLogits(cmd, rows, all)
}

func printLogits(cmd *cobra.Command, rows []any, all bool) error {
	w := bufio.NewWriter(cmd.OutOrStdout())
	for i, r := range rows {
		if all {
			fmt.Fprintf(w, "position %d\n", i)
		}
		switch x := r.(type) {
		case []scored:
			for _, s := range x {
				fmt.Fprintf(w, "%d %g\n", s.ID, s.Logit)
			}
		case []float32:
			for id, v := range x {
				fmt.Fprintf(w, "%d %g\n", id, v)
			}
		}
	}
	return w.Flush()
}
