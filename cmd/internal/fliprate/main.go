// Command fliprate tunes the same thing several times from nothing and says how often the outcome
// flipped: two runs that claim different winners, or that claim opposite things of the same one. A
// tie or `no winner` contradicts nothing.
//
//	go build -o tune ./cmd/tune
//	go run ./cmd/internal/fliprate -n 5 -- ./tune --host-profile --budget 75s
//	go run ./cmd/internal/fliprate -n 3 -stress-core 1 -- ./tune --host-profile --budget 75s
//	go run ./cmd/internal/fliprate -json -files run1.json,run2.json
//
// Every run has a cache directory of its own, and so a journal of its own. Under -stress-core one
// core is kept busy in bursts meanwhile: blocks must then be dropped, not winners changed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/tilewright/tilewright/cmd/internal/burn"
)

type flags struct {
	n      int
	stress int
	files  string
	keep   string
	json   bool
}

func main() {
	var f flags
	flag.IntVar(&f.n, "n", 5, "tunes")
	flag.IntVar(&f.stress, "stress-core", -1, "keep this core busy in bursts meanwhile")
	flag.StringVar(&f.files, "files", "", "compare these recorded outputs of tune --json instead, comma separated")
	flag.StringVar(&f.keep, "keep", "", "directory that the outputs are kept in")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, f, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fliprate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags, command []string) error {
	var runs []Run
	var err error
	switch {
	case f.files != "":
		runs, err = read(strings.Split(f.files, ","))
	case len(command) > 0:
		runs, err = repeat(ctx, f, command)
	default:
		err = errors.New("want the command of a tune after --, or -files")
	}
	if err != nil {
		return err
	}
	r := Compare(runs)
	r.Stressed = f.stress >= 0
	if f.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", " ")
		return e.Encode(r)
	}
	_, err = fmt.Print(r.Text())
	return err
}

func read(files []string) ([]Run, error) {
	var out []Run
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		r, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// repeat runs the command n times, each with a new cache directory. A run that refused to judge
// (exit 3) is one without verdicts; another failure ends it all.
func repeat(ctx context.Context, f flags, command []string) ([]Run, error) {
	dir, err := os.MkdirTemp("", "fliprate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var out []Run
	for i := range f.n {
		r, raw, err := once(ctx, f, command, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		fmt.Fprintf(os.Stderr, "run %d of %d: %s\n", i+1, f.n, r.line())
		if f.keep != "" && len(raw) > 0 {
			if err := os.WriteFile(filepath.Join(f.keep, fmt.Sprintf("run%d.json", i+1)), raw, 0o644); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// exitRefused is the status of a tune that refused to judge.
const exitRefused = 3

func once(ctx context.Context, f flags, command []string, cache string) (Run, []byte, error) {
	c := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], "--json", "--cache-dir", cache)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if f.stress >= 0 {
		stop, err := burn.Core(f.stress)
		if err != nil {
			return Run{}, nil, err
		}
		defer stop()
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitRefused {
		return Run{Refused: lastLine(stderr.String())}, nil, nil
	}
	if err != nil {
		return Run{}, nil, fmt.Errorf("%w: %s", err, lastLine(stderr.String()))
	}
	r, err := Parse(stdout.Bytes())
	return r, stdout.Bytes(), err
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
