package lock

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary hold a lock in a process of its own.
func TestMain(m *testing.M) {
	if path := os.Getenv("LOCK_TEST_HOLD"); path != "" {
		if _, err := Acquire(path); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"LOCK_TEST_HOLD=" + path}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line)
	}
	_, err := Acquire(path)
	var held *HeldError
	if !errors.As(err, &held) || held.Pid != cmd.Process.Pid || held.Command == "" || !strings.Contains(err.Error(), "host busy") {
		t.Fatalf("%v", err)
	}
	// The kernel frees the lock of a process that is killed.
	cmd.Process.Kill()
	cmd.Wait()
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if again, err := Acquire(path); err != nil {
		t.Error(err)
	} else {
		again.Release()
	}
}

func TestRefusesWhatIsNoPlainFile(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	os.WriteFile(victim, []byte("precious"), 0o600)
	sym, hard, sub := filepath.Join(dir, "sym"), filepath.Join(dir, "hard"), filepath.Join(dir, "sub")
	if err := errors.Join(os.Symlink(victim, sym), os.Link(victim, hard), os.Mkdir(sub, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{sym, hard, sub, filepath.Join(dir, "none", "l")} {
		if l, err := Acquire(p); err == nil {
			l.Release()
			t.Errorf("%s was taken for a lock file", p)
		}
	}
	if b, _ := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("victim now holds %q", b)
	}
	// The next path serves.
	l, err := Acquire(sym, filepath.Join(dir, "ok"))
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
