package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/kernel"
)

// A hang ends with its time, once more in a fresh process: it may have been stopped from outside. Whoever
// has hung twice is known to hang by itself, and is not asked a second time after that.
func TestHangIsKilledInTime(t *testing.T) {
	for _, name := range []string{"hangs", "late", "deserts"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, name, quick)
			p.opts.CallTimeout = time.Second
			for x := range int64(2) {
				_, err := emit(t, p, 1+x)
				if crash, ok := IsCrash(err); !ok || crash.Reason != ReasonHang || crash.Again {
					t.Error(err)
				}
				if got := p.Outlived(); len(got) != 1 {
					t.Errorf("x=%d: asked again after %v", 1+x, got)
				}
			}
			p.opts.CallTimeout = quick.CallTimeout
			if _, err := emit(t, p, 0); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// hold stops a process until it is gone or the test is over, whoever wakes it. It returns when the process
// stands still.
func hold(t *testing.T, pid int) {
	t.Helper()
	stands := func() bool {
		unix.Kill(pid, unix.SIGSTOP)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") T ")
	}
	for end := time.Now().Add(20 * time.Second); !stands(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for !gone(pid) {
			unix.Kill(pid, unix.SIGSTOP)
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { close(over); <-done })
}

// whenAsked calls f, in the call that does it, when a backend is started again and asked the same.
func whenAsked(f func()) *slog.Logger { return slog.New(slog.NewTextHandler(askedAgain(f), nil)) }

type askedAgain func()

func (f askedAgain) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "starting it again") {
		f()
	}
	return len(line), nil
}

// A backend that somebody stops is started again and asked the same, as one that somebody kills; the second
// time it is taken for its own fault, however well it answered in between.
func TestStoppedFromOutsideIsAskedAgain(t *testing.T) {
	o := quick
	var p *Plugin
	o.Log = whenAsked(func() { p.opts.CallTimeout = quick.CallTimeout }) // for the healthy one, on whatever host
	p = open(t, "good", o)
	stopped := func(x int64) (*kernel.Artifact, error) {
		p.opts.CallTimeout = 300 * time.Millisecond
		hold(t, p.sess.proc.pid)
		return emit(t, p, x)
	}
	first := p.sess.proc.pid
	if a, err := stopped(1); err != nil || a.Code[1] != 1 || p.sess.proc.pid == first {
		t.Fatal(err)
	}
	if got := p.Outlived(); len(got) != 1 || deathOf(got[0]) != ReasonHang {
		t.Errorf("outlived %v", got)
	}
	if _, err := emit(t, p, 1); err != nil {
		t.Errorf("what it did not answer in time is quarantined: %v", err)
	}
	_, err := stopped(2)
	if crash, ok := IsCrash(err); !ok || crash.Reason != ReasonHang || len(p.Outlived()) != 1 {
		t.Errorf("stopped twice: %v, outlived %v", err, p.Outlived())
	}
	p.opts.CallTimeout = quick.CallTimeout
	if _, err := emit(t, p, 2); err == nil {
		t.Error("what it hung over is not quarantined")
	}
	if _, err := emit(t, p, 0); err != nil {
		t.Errorf("another call afterwards: %v", err)
	}
}

func TestCallerGoesAway(t *testing.T) {
	p := open(t, "hangs", quick)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Emit(ctx, features, problem, kernel.Config{"x": 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := emit(t, p, 0); err != nil {
		t.Errorf("next call: %v", err)
	}
}
