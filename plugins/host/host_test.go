package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/kernel"
)

var (
	features = kernel.NewFeatures("avx2", "fma")
	problem  = kernel.Problem{Op: kernel.OpScale}
	quick    = Options{StartTimeout: 20 * time.Second, CallTimeout: 20 * time.Second}
)

func open(t testing.TB, name string, o Options) *Plugin {
	t.Helper()
	p, err := Open(t.Context(), Builtin(name, "src-"+name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func emit(t testing.TB, p *Plugin, x int64) (*kernel.Artifact, error) {
	t.Helper()
	return p.Emit(t.Context(), features, problem, kernel.Config{"x": x})
}

func TestBackendOverTheWire(t *testing.T) {
	p := open(t, "good", quick)
	a, err := emit(t, p, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := (kernel.BackendID{Name: "good", Digest: "src-good"}); a.Key.Backend != want || a.Code[1] != 2 || a.Key.Config["x"] != 2 {
		t.Errorf("artifact %+v", a)
	}
	ls, err := p.Layouts(t.Context(), features, kernel.FormatQ4_0)
	if err != nil || len(ls) != 1 || ls[0] != (kernel.Layout{Lanes: 16, Cols: 2}) {
		t.Errorf("layouts %v, %v", ls, err)
	}
	if _, err := emit(t, p, 9); !errors.Is(err, kernel.ErrConfig) {
		t.Errorf("a value outside the space gave %v", err)
	}
	if _, err := p.Emit(t.Context(), features, problem, kernel.Config{"x": 1, "y": 1}); !errors.Is(err, kernel.ErrConfig) {
		t.Errorf("an unknown parameter gave %v", err)
	}
	if _, err := open(t, "unsupported", quick).Space(t.Context(), features, problem); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("unsupported gave %v", err)
	}
}

func TestCrashIsClassifiedQuarantinedAndSurvived(t *testing.T) {
	for name, want := range map[string]Reason{
		"illegal": ReasonSIGILL, "segv": ReasonSIGSEGV, "abort": ReasonAbort, "oom": ReasonOOM, "panic": ReasonPanic,
		"exits": ReasonExit, "killed": ReasonKilled,
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, name, quick)
			_, err := emit(t, p, 1)
			crash, ok := IsCrash(err)
			if !ok || crash.Reason != want || crash.Config["x"] != 1 || crash.Again {
				t.Fatalf("got %v, want reason %s", err, want)
			}
			if _, err := emit(t, p, 1); !errors.As(err, &crash) || !crash.Again {
				t.Errorf("second try was not refused from quarantine: %v", err)
			}
			if _, err := emit(t, p, 0); err != nil {
				t.Errorf("a good configuration after the crash: %v", err)
			}
		})
	}
}

// A backend that somebody kills, between calls or in one, is started again and asked the same; one that
// is killed each time is not asked that again.
func TestKilledFromOutsideIsAskedAgain(t *testing.T) {
	p := open(t, "good", quick)
	for i := range 6 {
		unix.Kill(p.sess.proc.pid, []syscall.Signal{unix.SIGKILL, unix.SIGTERM}[i%2])
		if a, err := emit(t, p, int64(i%3)); err != nil || a.Code[1] != byte(i%3) {
			t.Fatalf("kill %d: %v", i, err)
		}
	}
	slow := open(t, "slow", quick)
	first := slow.sess.proc.pid
	go func() {
		time.Sleep(100 * time.Millisecond)
		unix.Kill(first, unix.SIGKILL)
	}()
	if _, err := emit(t, slow, 1); err != nil || slow.sess.proc.pid == first {
		t.Errorf("killed in a call: %v", err)
	}
	doomed := open(t, "killed", quick)
	_, err := emit(t, doomed, 1)
	if crash, ok := IsCrash(err); !ok || crash.Reason != ReasonKilled || doomed.crashes != 1+maxRestarts {
		t.Errorf("killed each time: %v after %d crashes", err, doomed.crashes)
	}
}

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

func TestBadAnswersAreRefused(t *testing.T) {
	for name, want := range map[string]struct {
		is   error
		text string
	}{
		"huge":       {nil, "at most"},
		"truncated":  {kernel.ErrArtifact, "outside 2 bytes"},
		"liesisa":    {kernel.ErrArtifact, "requires"},
		"overclaims": {kernel.ErrArtifact, "does not have"},
		"portable":   {kernel.ErrArtifact, "portable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := emit(t, open(t, name, quick), 1)
			if err == nil || want.is != nil && !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOutputDoesNoHarm(t *testing.T) {
	for _, name := range []string{"longline", "badjson", "prints"} {
		p := open(t, name, quick)
		for range 3 {
			if _, err := emit(t, p, 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestStartErrors(t *testing.T) {
	for name, want := range map[string]string{
		"noisy":     "hello from my init function",
		"oldproto":  "speaks protocol 7",
		"nextproto": "speaks protocol 2",
		"dies":      "cannot read my tables",
		"silent":    "within the time",
		"elsewhere": "want a Unix socket",
		"quits":     "exit status 3: no licence",
		"misnamed":  "someone-else",
		"mute":      "",
		"nonesuch":  "no built-in backend",
	} {
		t.Run(name, func(t *testing.T) {
			o := quick
			if name == "silent" || name == "mute" {
				o.StartTimeout = 300 * time.Millisecond
				o.Log = whenAsked(func() { t.Error("asked for its manifest again: every start would cost that time twice") })
			}
			p, err := Open(t.Context(), Builtin(name, ""), o)
			var se *StartError
			var crash *ErrBackendCrashed // of the one that shakes hands first
			if err == nil {
				p.Close()
				t.Fatal("started")
			}
			if !errors.As(err, &se) && !errors.As(err, &crash) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		})
	}
}

func TestGrandchildrenAreKilled(t *testing.T) {
	p := open(t, "forks", quick)
	_, err := emit(t, p, 1)
	var child int
	if _, serr := fmt.Sscanf(err.Error(), "backend forks: emit: child %d", &child); serr != nil {
		t.Fatal(err)
	}
	p.Close()
	for range 100 {
		if gone(child) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d, started by the backend, is alive", child)
}

// gone reports whether a process has ended; a zombie that nobody reaped has.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", dir)
	p := open(t, "good", quick)
	pid := p.sess.proc.pid
	if _, err := emit(t, p, 0); err != nil {
		t.Error(err)
	}
	p.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", pid, err)
	}
	if _, err := emit(t, p, 0); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("call after Close: %v", err)
	}
}

func TestEnvironmentIsDeclaredOrScrubbed(t *testing.T) {
	t.Setenv("FAKE_KNOB", "7")
	t.Setenv("FAKE_SECRET", "s")
	p := open(t, "env", quick)
	if m, _ := p.Manifest(t.Context()); m.Version != "7/" {
		t.Errorf("the backend saw %q, want the declared variable alone", m.Version)
	}
	with := p.ID().Digest
	t.Setenv("FAKE_KNOB", "8")
	if other := open(t, "env", quick).ID().Digest; other == with {
		t.Error("a declared variable changed and the identity did not")
	}
}

func TestGivesUp(t *testing.T) {
	p := open(t, "exits", Options{MaxCrashes: 2})
	for x := int64(1); x <= 2; x++ {
		emit(t, p, x)
	}
	_, err := emit(t, p, 0)
	if crash, ok := IsCrash(err); !ok || crash.Reason != ReasonGaveUp {
		t.Error(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		p, err := Open(b.Context(), Builtin("good", ""), quick)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Close()
		b.StartTimer()
	}
}

func BenchmarkEmit(b *testing.B) {
	p := open(b, "good", quick)
	for b.Loop() {
		if _, err := emit(b, p, 1); err != nil {
			b.Fatal(err)
		}
	}
}
