package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tilewright/tilewright/engine"
	"github.com/tilewright/tilewright/engine/chat"
	"github.com/tilewright/tilewright/engine/sample"
	"github.com/tilewright/tilewright/engine/tokenizer"
	"github.com/tilewright/tilewright/tuner/resolve"
)

// generator holds what turns prompts into text.
type generator struct {
	tok     *tokenizer.Tokenizer
	session *engine.Session
	sampler *sample.Sampler
	watch   *resolve.SpeedWatch
	f       *runFlags
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
