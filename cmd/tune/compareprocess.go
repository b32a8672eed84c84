package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/engine/bench"
	"github.com/tilewright/tilewright/tuner/measure"
	"github.com/tilewright/tilewright/tuner/measure/grid"
)

// start runs the process in a group of its own, which is gone when it returns. Where memory is a metric it
// watches that of the tree: the greatest RssAnon is the second result. The nonce is in its environment.
func (g *program) start(ctx context.Context, nonce string) ([]byte, int64, *measure.Failure) {
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	defer runtime.UnlockOSThread()
	limited, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	c := exec.CommandContext(limited, g.path, g.args...)
	stdout, stderr := &head{max: maxStdout}, &head{max: maxStderr}
	c.Stdout, c.Stderr = stdout, stderr
	c.Env = append(os.Environ(), grid.NonceEnv+"="+nonce)
	for k, v := range g.env {
		c.Env = append(c.Env, k+"="+v)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 2 * time.Second // for pipes that grandchildren hold
	here := adopt()
	err := c.Start()
	var tree int64
	if err == nil {
		peak := func() int64 { return 0 }
		if g.memory {
			peak = watchTree(here)
		}
		err = c.Wait()
		tree = peak()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		end(here) // what it left running would disturb the next arm
	}
	if err == nil && stdout.cut {
		return nil, 0, &measure.Failure{Class: "output", Stderr: fmt.Sprintf("more than %d bytes on stdout", maxStdout)}
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success() {
		return stdout.b, tree, nil
	}
	return nil, 0, failure(err, limited.Err() != nil, c.ProcessState, stderr)
}

// watchTree samples RssAnon, summed over the children that came since and their descendants, every 10 ms
// until the returned function is called, which gives the greatest.
func watchTree(before []int) (peak func() int64) {
	quit, top := make(chan struct{}), make(chan int64)
	go func() {
		t := time.NewTicker(10 * time.Millisecond)
		defer t.Stop()
		var most int64
		for {
			var sum int64
			for _, pid := range since(before) {
				if n, err := bench.RssAnon(pid); err == nil {
					sum += n
				}
			}
			most = max(most, sum)
			select {
			case <-quit:
				top <- most
				return
			case <-t.C:
			}
		}
	}()
	return func() int64 { close(quit); return <-top }
}

func failure(err error, timeout bool, st *os.ProcessState, stderr *head) *measure.Failure {
	f := &measure.Failure{Class: "start", Stderr: stderr.lines()}
	ws, ok := syscall.WaitStatus(0), false
	if st != nil {
		ws, ok = st.Sys().(syscall.WaitStatus)
	}
	switch {
	case timeout:
		f.Class = "timeout"
	case !ok:
		f.Stderr = err.Error()
	case ws.Signaled():
		f.Class, f.Signal = "signal", unix.SignalName(ws.Signal())
	default:
		f.Class, f.Exit = "exit", ws.ExitStatus()
	}
	return f
}

// head keeps the first bytes that are written to it.
type head struct {
	b   []byte
	max int
	cut bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.max-len(h.b))
	h.b = append(h.b, p[:n]...)
	h.cut = h.cut || n < len(p)
	return len(p), nil
}

// lines are the first lines of text in one.
func (h *head) lines() string {
	var out []string
	for line := range strings.Lines(string(h.b)) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, printable(line[:min(len(line), 200)]))
		}
		if len(out) == headLines {
			break
		}
	}
	return strings.Join(out, " | ")
}

// printable is text without what a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
