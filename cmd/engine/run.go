package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/chat"
	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/sample"
	"github.com/tilewright/tilewright/engine/tokenizer"
)

type runFlags struct {
	app.ModelFlags
	prompt, promptFile string
	prompted           bool // --prompt was given, maybe empty
	system             string
	n                  int
	chat               bool
	stop               []string
	sample             sample.Options
}

func runCmd(s *cli.Shared) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use: "run", Short: "Generate text", Args: cli.NoArgs,
		Long: "Generate text after a prompt given by --prompt, --prompt-file or standard input. With --chat on a terminal and no prompt: a conversation.",
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, s, f) },
	}
	fs := c.Flags()
	f.Register(fs, false)
	fs.StringVarP(&f.prompt, "prompt", "p", "", "text to continue (or to answer, with --chat)")
	fs.StringVar(&f.promptFile, "prompt-file", "", "file with the prompt")
	fs.StringVar(&f.system, "system", "", "system message, with --chat")
	fs.IntVarP(&f.n, "n-predict", "n", 256, "tokens to generate at most")
	fs.BoolVar(&f.chat, "chat", false, "use the model's chat template")
	fs.StringArrayVar(&f.stop, "stop", nil, "end the text before this string (may be repeated)")
	fs.Float64Var(&f.sample.Temperature, "temp", 0, "temperature; 0 takes the best token")
	fs.IntVar(&f.sample.TopK, "top-k", 40, "sample from the k best tokens")
	fs.Float64Var(&f.sample.TopP, "top-p", 0.95, "sample from the smallest set of this probability")
	fs.Uint64Var(&f.sample.Seed, "seed", 0, "seed of the sampler")
	return c
}

// check finds wrong flags before anything is loaded.
func (f *runFlags) check() error {
	if f.n < 1 {
		return cli.Usagef("-n %d: want at least 1", f.n)
	}
	if !(f.sample.Temperature >= 0 && f.sample.Temperature <= math.MaxFloat32) || f.sample.TopK < 0 || !(f.sample.TopP >= 0 && f.sample.TopP <= 1) {
		return cli.Usagef("--temp and --top-k must be finite and not negative, --top-p lies between 0 and 1") // NaN is not >= 0
	}
	_, err := f.Ref()
	return err
}

func run(cmd *cobra.Command, s *cli.Shared, f *runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	f.prompted = cmd.Flags().Changed("prompt")
	talk := f.chat && !f.prompted && f.promptFile == "" && term.IsTerminal(int(os.Stdin.Fd()))
	prompt := ""
	if !talk {
		var err error
		if prompt, err = f.text(cmd.InOrStdin()); err != nil {
			return err
		}
	}
	tok, tmpl, err := openTokenizer(f.Model, f.chat)
	if err != nil {
		return err
	}
	l, err := app.Load(cmd.Context(), s, &f.ModelFlags, nil)
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
	g := &generator{tok: tok, session: session, sampler: sample.New(f.sample), watch: l.Plan.Watch(), f: f}
	defer l.Judge(g.watch)
	if talk {
		return g.converse(cmd.Context(), tmpl, os.Stdin, os.Stdout)
	}
	ids, err := f.encode(tok, tmpl, prompt)
	if err != nil {
		return err
	}
	return g.answer(cmd, s, l, ids)
}

// answer generates after one prompt and prints the text, or everything as JSON.
func (g *generator) answer(cmd *cobra.Command, s *cli.Shared, l *app.Loaded, ids []int) error {
	var out io.Writer = cmd.OutOrStdout()
	if s.JSON {
		out = io.Discard
	}
	r, err := g.generate(cmd.Context(), ids, out)
	if errors.Is(err, engine.ErrContext) {
		return fmt.Errorf("%w: give a shorter prompt or a larger --ctx (the model has up to %d)", err, l.Model.Spec.Context)
	}
	if err != nil {
		return err
	}
	r.Timings.LoadS = l.Engine.Stats().Seconds
	if s.JSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	fmt.Fprintln(out)
	if !s.Quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", r.Timings)
	}
	return nil
}

// text reads the prompt from where it was given.
func (f *runFlags) text(stdin io.Reader) (string, error) {
	switch {
	case f.prompted && f.promptFile != "":
		return "", cli.Usagef("give --prompt or --prompt-file, not both")
	case f.prompted && f.prompt == "":
		return "", cli.Usagef("the prompt is empty")
	case f.prompted:
		return f.prompt, nil
	}
	r := stdin
	if f.promptFile != "" {
		file, err := os.Open(f.promptFile)
		if err != nil {
			return "", err
		}
		defer file.Close()
		r = file
	} else if in, ok := stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return "", cli.Usagef("no prompt: give --prompt, --prompt-file, standard input, or --chat for a conversation")
	}
	const limit = 64 << 20
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > limit:
		return "", fmt.Errorf("the prompt is larger than %d bytes", limit)
	case len(b) == 0:
		return "", cli.Usagef("the prompt is empty")
	}
	return string(b), nil
}

func (f *runFlags) encode(tok *tokenizer.Tokenizer, tmpl *chat.Template, prompt string) ([]int, error) {
	var ids []int
	if f.chat {
		var err error
		if ids, err = tmpl.Encode(f.messages(prompt), true); err != nil {
			return nil, err
		}
	} else {
		ids = tok.Encode(prompt, tokenizer.Options{AddSpecial: true})
	}
	if len(ids) == 0 {
		return nil, errors.New("the prompt has no tokens in this vocabulary")
	}
	return ids, nil
}

func (f *runFlags) messages(prompt string) []chat.Message {
	var ms []chat.Message
	if f.system != "" {
		ms = append(ms, chat.Message{Role: "system", Content: f.system})
	}
	return append(ms, chat.Message{Role: "user", Content: prompt})
}

// openTokenizer reads the tokenizer of a model file, and its chat template if asked.
func openTokenizer(path string, withChat bool) (*tokenizer.Tokenizer, *chat.Template, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil || !withChat {
		return tok, nil, err
	}
	tmpl, err := chat.FromGGUF(f, tok)
	return tok, tmpl, err
}
