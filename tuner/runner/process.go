package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/tuner/wire"
)

// Crash is the death of a runner: a fault of a candidate, a kill, a hang.
type Crash struct {
	Job    string
	Reason string // signal, exit status, or "timeout"
	Stderr string // its first lines
}

func (c *Crash) Error() string {
	s := fmt.Sprintf("runner died during %s: %s", c.Job, c.Reason)
	if c.Stderr != "" {
		s += ": " + c.Stderr
	}
	return s
}

// Start runs this executable again as a runner. The process dies with this one.
func Start(ctx context.Context, p Planner) (*Runner, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "runner"), os.NewFile(uintptr(fds[1]), "runner")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	r := &Runner{conn: conn, planner: p, stderr: &head{}, exited: make(chan struct{}), sent: map[string]bool{}}
	r.cmd = exec.Command("/proc/self/exe")
	r.cmd.Args = []string{os.Args[0], "(runner)"}
	r.cmd.Env = append(os.Environ(), EnvServe+"=1")
	r.cmd.ExtraFiles = []*os.File{theirs}
	r.cmd.Stderr = r.stderr
	r.cmd.WaitDelay = closeDelay // a grandchild may hold the pipe
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := startLocked(r.cmd); err != nil {
		conn.Close()
		return nil, fmt.Errorf("runner: %w", err)
	}
	go func() {
		r.waitErr = r.cmd.Wait()
		close(r.exited)
	}()
	r.id.PID = r.cmd.Process.Pid
	if r.id.Start, err = startTime(r.id.PID); err == nil {
		r.id.Exe, err = exeDigest()
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("runner: %w", err)
	}
	return r, nil
}

// starter runs on one locked thread for the life of the program: Pdeathsig fires when the thread
// that started a child ends, so that thread must not end early.
var starter = sync.OnceValue(func() chan func() {
	c := make(chan func())
	go startAll(c)
	return c
})

func startAll(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

func startLocked(cmd *exec.Cmd) error {
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

// closeDelay is what a process gets to end by itself.
const closeDelay = 2 * time.Second

// Close ends the process.
func (r *Runner) Close() {
	r.conn.Close()
	select {
	case <-r.exited:
	case <-time.After(closeDelay):
		r.kill()
		<-r.exited
	}
}

// kill ends the process and its children, unless it has ended: its number may then be another's.
func (r *Runner) kill() {
	select {
	case <-r.exited:
	default:
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// autopsy says why the process ended, err being what the conversation ended with. The caller's own
// cancellation is not a crash.
func (r *Runner) autopsy(ctx context.Context, job string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	c := &Crash{Job: job, Reason: "exited", Stderr: r.stderr.first()}
	if ctx.Err() != nil {
		c.Reason = "timeout"
	} else if errors.Is(err, wire.ErrFrame) {
		c.Reason = err.Error() // it was killed for that
	} else if r.waitErr != nil {
		c.Reason = r.waitErr.Error()
	}
	// The Go runtime turns a fault in generated code into a message and status 2.
	for _, sig := range []string{"SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGTRAP"} {
		if strings.Contains(c.Stderr, sig) {
			c.Reason = sig
		}
	}
	return c
}

// head keeps the first part of a stream.
type head struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const headBytes = 4096

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b.Write(p[:min(len(p), headBytes-h.b.Len())])
	return len(p), nil
}

func (h *head) first() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := strings.SplitN(h.b.String(), "\n", 4)
	return strings.TrimSpace(strings.Join(lines[:min(3, len(lines))], " | "))
}

var _ io.Writer = (*head)(nil)
