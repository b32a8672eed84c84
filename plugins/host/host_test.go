package host

import (
	"errors"
	"fmt"
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
