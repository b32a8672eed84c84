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
// that only looks like one or may be in use.
func TestLeftDirectoriesAreSwept(t *testing.T) {
	base, old := t.TempDir(), time.Now().Add(-2*time.Hour)
	keep := map[string]bool{"tw-123/plugin-dir1/plugin2": false, "tw-124/": false, "tw-125/notes.txt": true, "tw-mine/plugin1": true, "other/plugin1": true}
	for path := range keep {
		dir := filepath.Join(base, strings.Split(path, "/")[0])
		os.MkdirAll(filepath.Dir(filepath.Join(base, path+"x")), 0o700)
		if !strings.HasSuffix(path, "/") {
			os.WriteFile(filepath.Join(base, path), nil, 0o600)
		}
		os.Chtimes(dir, old, old)
	}
	os.Mkdir(filepath.Join(base, "tw-999"), 0o700)
	keep["tw-999/"] = true // young
	sweep(base, time.Now().Add(-time.Hour))
	for path, want := range keep {
		if _, err := os.Stat(filepath.Join(base, strings.Split(path, "/")[0])); (err == nil) != want {
			t.Errorf("%s: kept %t", path, err == nil)
		}
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
