package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// envRole makes the test binary another program: a host, or an author's plugin started by hand.
const envRole = "TILEWRIGHT_TEST_ROLE"

func role(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), envRole+"="+name)
	return cmd
}

// beHost opens a backend, prints its pid, wedges it and waits to be killed.
func beHost() {
	p, err := Open(context.Background(), Builtin("hangs", ""), Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.sess.proc.pid)
	p.Emit(context.Background(), features, problem, kernel.Config{"x": 1})
	time.Sleep(time.Minute)
}

func TestBackendDiesWithItsHost(t *testing.T) {
	dir := t.TempDir()
	cmd := role(t, "host")
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR=", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the host left %v behind, %v", left, err)
	}
	for range 200 {
		if gone(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("backend %d outlived its host", pid)
}

// A host that was killed while a backend started leaves a directory; a later host removes it, and nothing
// that only looks like one, however empty, or whose host lives.
func TestLeftDirectoriesAreSwept(t *testing.T) {
	base, old := t.TempDir(), time.Now().Add(-2*time.Hour)
	me, err := wire.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone, live := fmt.Sprintf("%d %d\n", os.Getpid(), me+1), fmt.Sprintf("%d %d\n", os.Getpid(), me)
	none := "0 1\n" // no process has this pid
	for name, c := range map[string]struct {
		owner, file string
		young, kept bool
	}{
		"tw-121":  {gone, "plugin-dir1", false, false},
		"tw-122":  {none, "", false, false},
		"tw-123":  {live, "plugin-dir1", false, true},
		"tw-124":  {"", "", false, true}, // another program's, empty
		"tw-125":  {"", "plugin1", false, true},
		"tw-126":  {gone, "notes.txt", false, true},
		"tw-127":  {"something else\n", "", false, true},
		"tw-128":  {none, "", true, true},
		"tw-mine": {none, "plugin1", false, true},
		"other":   {none, "plugin1", false, true},
	} {
		dir := filepath.Join(base, name)
		err := os.Mkdir(dir, 0o700)
		if c.owner != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, ownerFile), []byte(c.owner), 0o600))
		}
		if c.file != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, c.file), nil, 0o600))
		}
		if !c.young {
			err = errors.Join(err, os.Chtimes(dir, old, old))
		}
		if err != nil {
			t.Fatal(err)
		}
		sweep(base, time.Now().Add(-time.Hour))
		if _, err := os.Stat(dir); (err == nil) != c.kept {
			t.Errorf("%s: kept %t", name, err == nil)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", base)
	made, err := socketDir(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	os.Chtimes(made, old, old)
	if sweep(base, time.Now()); orphaned(made) {
		t.Error("the directory of a living host is an orphan")
	}
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
}

// Which step failed is said: no writable path helps where /proc is not there.
func TestSocketDirSaysWhatFailed(t *testing.T) {
	if _, err := socketDir(-1); err == nil || !strings.Contains(err.Error(), "mount /proc") || strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("a host without a start time: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	out, err := role(t, "author", "describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	var d wire.Description
	if err := json.Unmarshal(out, &d); err != nil || d.Manifest.Name != "good" || d.Protocol != wire.ProtocolVersion {
		t.Errorf("%v: %s", err, out)
	}
}

func TestStartedByHandItExplainsItself(t *testing.T) {
	var stderr strings.Builder
	cmd := role(t, "author")
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(stderr.String(), "describe") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

func TestReattach(t *testing.T) {
	cmd := role(t, "author", "--debug")
	stderr, err := cmd.StderrPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(wire.EnvReattach + `='(.*)'`)
	sc := bufio.NewScanner(stderr)
	for sc.Scan() {
		if m := re.FindStringSubmatch(sc.Text()); m != nil {
			t.Setenv(wire.EnvReattach, m[1])
			break
		}
	}
	src := Source{Name: "good", Path: "/nonexistent/tilewright-backend-good"}
	p, err := Open(t.Context(), src, quick)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.ID().Digest, "attached-") {
		t.Errorf("identity %+v", p.ID())
	}
	if _, err := emit(t, p, 1); err != nil {
		t.Error(err)
	}
	p.Close()
	// The host did not start it and does not end it.
	if gone(cmd.Process.Pid) {
		t.Error("closing the host's side ended a backend that somebody debugs")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), src, quick); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a process that ended: %v", err)
	}
}

func TestReattachRefusals(t *testing.T) {
	start, err := wire.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"{": "unexpected end",
		fmt.Sprintf(`[{"name":"x","pid":%d,"start":1,"network":"unix"}]`, os.Getpid()):        "is gone", // a reused pid
		fmt.Sprintf(`[{"name":"x","pid":%d,"start":%d,"network":"tcp"}]`, os.Getpid(), start): "want a Unix socket",
	} {
		t.Setenv(wire.EnvReattach, list)
		_, err := Open(t.Context(), Source{Name: "x", Path: "/nonexistent/tilewright-backend-x"}, quick)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}

func TestConcurrentCallsShareOneCrash(t *testing.T) {
	p := open(t, "exits", quick)
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := p.Emit(context.Background(), features, problem, kernel.Config{"x": 1})
			errs <- err
		}()
	}
	again := 0
	for range 4 {
		crash, ok := IsCrash(<-errs)
		if !ok {
			t.Fatal("no crash")
		}
		if crash.Again {
			again++
		}
	}
	if again != 3 {
		t.Errorf("%d of 4 calls were answered from quarantine, want 3", again)
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add([]byte(`{"@message": 42, "@level": {}}`))
	f.Add([]byte(`{"@message": "x", "@level": "warn", "k": [1]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		parseLog(line)
		for _, r := range printable(line) {
			if r < ' ' && r != '\t' {
				t.Errorf("control character %q", r)
			}
		}
	})
}
