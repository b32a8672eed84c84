package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tilewright/tilewright/cmd/internal/app"
	"github.com/tilewright/tilewright/cmd/internal/cli"
	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/chat"
	"github.com/tilewright/tilewright/engine/gguf"
	"github.com/tilewright/tilewright/engine/sample"
	"github.com/tilewright/tilewright/engine/tokenizer"
	"github.com/tilewright/tilewright/tuner/resolve"
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

// generator holds what turns prompts into text.
type generator struct {
	tok     *tokenizer.Tokenizer
	session *engine.Session
	sampler *sample.Sampler
	watch   *resolve.SpeedWatch
	f       *runFlags
}

func run(cmd *cobra.Command, s *cli.Shared, f *runFlags) error {
	if f.n < 1 {
		return cli.Usagef("-n %d: want at least 1", f.n)
	}
	if !(f.sample.Temperature >= 0 && f.sample.Temperature <= math.MaxFloat32) || f.sample.TopK < 0 || !(f.sample.TopP >= 0 && f.sample.TopP <= 1) {
		return cli.Usagef("--temp and --top-k must be finite and not negative, --top-p lies between 0 and 1") // NaN is not >= 0
	}
	if _, err := f.Ref(); err != nil {
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

type timings struct {
	PromptN    int     `json:"prompt_n"`
	PromptS    float64 `json:"prompt_s"`
	PredictedN int     `json:"predicted_n"`
	PredictedS float64 `json:"predicted_s"`
	LoadS      float64 `json:"load_s"`
}

func (t timings) String() string {
	rate := func(n int, s float64) float64 {
		if s <= 0 {
			return 0
		}
		return float64(n) / s
	}
	return fmt.Sprintf("load %.2f s, prompt %d tokens at %.1f tok/s, generated %d tokens at %.1f tok/s",
		t.LoadS, t.PromptN, rate(t.PromptN, t.PromptS), t.PredictedN, rate(t.PredictedN, t.PredictedS))
}

type result struct {
	PromptIDs []int   `json:"prompt_ids"`
	IDs       []int   `json:"ids"`
	Text      string  `json:"text"`
	Finish    string  `json:"finish"` // stop, length or context
	Timings   timings `json:"timings"`
}

// generate continues the session with ids and streams what follows to w.
func (g *generator) generate(ctx context.Context, ids []int, w io.Writer) (result, error) {
	r := result{PromptIDs: ids, IDs: []int{}, Finish: "length"}
	start := time.Now()
	logits, err := g.session.Prefill(ctx, ids)
	if err != nil {
		return r, err
	}
	r.Timings.PromptN, r.Timings.PromptS = len(ids), time.Since(start).Seconds()
	out := &stopper{w: w, stops: g.f.stop}
	stream := g.tok.NewStream(true, false)
	start = time.Now()
	for {
		id := g.sampler.Next(logits)
		if g.tok.IsEnd(id) {
			r.Finish = "stop"
			break
		}
		r.IDs = append(r.IDs, id)
		if err := out.write(stream.Push(id)); err != nil {
			return r, err
		}
		if out.done {
			r.Finish = "stop"
			break
		}
		if len(r.IDs) >= g.f.n {
			break
		}
		step := time.Now()
		logits, err = g.session.Step(ctx, id)
		g.watch.Token(g.session.Len(), time.Since(step))
		if errors.Is(err, engine.ErrContext) {
			r.Finish = "context"
			break
		}
		if err != nil {
			return r, err
		}
	}
	r.Timings.PredictedN, r.Timings.PredictedS = len(r.IDs), time.Since(start).Seconds()
	if err := out.write(stream.Flush()); err != nil {
		return r, err
	}
	err = out.flush()
	r.Text = out.text.String()
	return r, err
}

// converse answers lines of a terminal, keeping the conversation.
func (g *generator) converse(ctx context.Context, tmpl *chat.Template, in io.Reader, out io.Writer) error {
	var ms []chat.Message
	if g.f.system != "" {
		ms = append(ms, chat.Message{Role: "system", Content: g.f.system})
	}
	fmt.Fprintln(out, "Type a message; an empty line or Ctrl-D ends.")
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var past []int
	for fmt.Fprint(out, "> "); lines.Scan() && strings.TrimSpace(lines.Text()) != ""; fmt.Fprint(out, "\n> ") {
		ms = append(ms, chat.Message{Role: "user", Content: lines.Text()})
		ids, err := tmpl.Encode(ms, true)
		if err != nil {
			return err
		}
		same := 0
		for same < len(past) && same < len(ids)-1 && same < g.session.Len() && past[same] == ids[same] {
			same++
		}
		if err := g.session.Truncate(same); err != nil {
			return err
		}
		r, err := g.generate(ctx, ids[g.session.Len():], out)
		if err != nil {
			return err
		}
		past = append(append([]int{}, ids...), r.IDs...)
		ms = append(ms, chat.Message{Role: "assistant", Content: r.Text})
	}
	fmt.Fprintln(out)
	return lines.Err()
}

// stopper writes text up to the first stop string, holding back what may be the start of one.
type stopper struct {
	w     io.Writer
	stops []string
	held  string
	text  strings.Builder
	done  bool
}

func (s *stopper) write(t string) error {
	if s.done {
		return nil
	}
	s.held += t
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); stop != "" && i >= 0 {
			s.held, s.done = s.held[:i], true
			return s.flush()
		}
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	out := s.held[:len(s.held)-keep]
	s.held = s.held[len(out):]
	return s.put(out)
}

func (s *stopper) flush() error {
	out := s.held
	s.held = ""
	return s.put(out)
}

func (s *stopper) put(t string) error {
	s.text.WriteString(t)
	_, err := io.WriteString(s.w, t)
	return err
}
