package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tilewright/tilewright/cmd/internal/cli"
)

// progress shows how much of the budget is spent and what is being done: a bar on a terminal, a
// line for each stage with -v, nothing otherwise.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	lines bool
	bars  *mpb.Progress
	bar   *mpb.Bar
	text  string
	stop  chan struct{}
}

func newProgress(w io.Writer, s *cli.Shared, started time.Time, budget time.Duration) *progress {
	p := &progress{out: w, lines: s.Verbose}
	f, isFile := w.(*os.File)
	if s.NoProgress || s.Quiet || s.Verbose || !isFile || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	p.stop = make(chan struct{})
	p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	p.bar = p.bars.AddBar(int64(budget), mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return " " + p.text
		})))
	go p.tick(started, p.stop)
	return p
}

func (p *progress) tick(started time.Time, stop <-chan struct{}) {
	t := time.NewTicker(500 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			p.bar.SetCurrent(int64(time.Since(started)))
		}
	}
}

// stage says what is being done.
func (p *progress) stage(stage, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = stage + ": " + detail
	if p.lines {
		fmt.Fprintf(p.out, "%s: %s\n", stage, detail)
	}
}

// done removes the display; it may be called more than once.
func (p *progress) done() {
	p.mu.Lock()
	stop := p.stop
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
