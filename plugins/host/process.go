package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// process is a backend's process as go-plugin's runner.Runner. The host owns it: a process group of
// its own, killed as a whole; stdout and stderr read here, so that go-plugin sees the handshake line
// and nothing else.
type process struct {
	name string
	dir  string // private; the socket must lie in it
	cmd  *exec.Cmd
	log  *slog.Logger

	stderr     head
	handshake  *io.PipeReader // to go-plugin: at most one line
	silence    *io.PipeReader // to go-plugin in place of stderr: ends when the process does
	lifeline   *os.File       // write end, open as long as the host wants the process
	first      string         // first line of stdout, valid after firstSeen or done is closed
	firstSeen  chan struct{}
	done       chan struct{} // closed when reaped and its output is read
	mu         sync.Mutex    // guards the three below
	pid        int           // 0 before the start
	reaped     bool
	killed     bool // the host killed it, or wants to
	handshakeW *io.PipeWriter
	silenceW   *io.PipeWriter
}

func newProcess(name, dir string, cmd *exec.Cmd, log *slog.Logger) *process {
	p := &process{name: name, dir: dir, cmd: cmd, log: log, firstSeen: make(chan struct{}), done: make(chan struct{})}
	p.handshake, p.handshakeW = io.Pipe()
	p.silence, p.silenceW = io.Pipe()
	return p
}

// Start starts the process with null stdin. cmd.ExtraFiles[0] becomes the lifeline, descriptor 3.
func (p *process) Start(context.Context) error {
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	outR, outW, err1 := pipe()
	errR, errW, err2 := pipe()
	lifeR, lifeW, err3 := pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll()
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = nil, outW, errW
	p.cmd.ExtraFiles = append([]*os.File{lifeR}, p.cmd.ExtraFiles...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := spawn.start(p.cmd); err != nil {
		closeAll()
		close(p.done)
		p.end()
		return err
	}
	for _, f := range []*os.File{outW, errW, lifeR} {
		f.Close()
	}
	p.lifeline = lifeW
	p.mu.Lock()
	p.pid = p.cmd.Process.Pid
	unwanted := p.killed
	p.mu.Unlock()
	if unwanted {
		p.kill()
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { p.readStdout(outR) })
	pumps.Go(func() {
		eachLine(errR, func(line []byte) {
			p.stderr.add(line)
			logLine(p.log, line)
		})
	})
	go p.reap(&pumps, outR, errR)
	return nil
}

// reap waits for the process, kills what is left of its group while the group's id cannot have been
// reused, and ends the readers even if a descendant that left the group keeps the pipes open.
func (p *process) reap(pumps *sync.WaitGroup, pipes ...*os.File) {
	var info unix.Siginfo
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	p.cmd.Wait()
	p.reaped = true
	p.mu.Unlock()
	spawn.release()
	p.lifeline.Close()

	const grace = 200 * time.Millisecond
	for _, f := range pipes {
		f.SetReadDeadline(time.Now().Add(grace))
	}
	pumps.Wait()
	for _, f := range pipes {
		f.Close()
	}
	close(p.done)
	p.end()
}

// end tells go-plugin that the output is over.
func (p *process) end() {
	p.handshakeW.Close()
	p.silenceW.Close()
}

var handshakeRE = regexp.MustCompile(`^[0-9]+\|[0-9]+\|[a-z]+\|[^|]+\|[a-z]+(\||$)`)

// readStdout hands the first line to go-plugin if it is a handshake, and only logs everything else.
func (p *process) readStdout(r io.Reader) {
	seen := false
	eachLine(r, func(line []byte) {
		if seen {
			p.log.Debug("stdout: " + printable(line))
			return
		}
		seen = true
		p.first = string(line)
		close(p.firstSeen)
		if handshakeRE.MatchString(p.first) {
			fmt.Fprintln(p.handshakeW, p.first)
		}
		p.handshakeW.Close()
	})
}

// firstLine waits for the first line of stdout or the end of the process.
func (p *process) firstLine() string {
	select {
	case <-p.firstSeen:
		return p.first
	case <-p.done:
		select {
		case <-p.firstSeen:
			return p.first
		default:
			return ""
		}
	}
}

// kill kills the whole group, and the process itself should it have left that.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = p.killed || !p.reaped
	if p.pid != 0 && !p.reaped {
		unix.Kill(-p.pid, unix.SIGKILL)
		unix.Kill(p.pid, unix.SIGKILL)
	}
}

func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// Wait waits until the process is reaped.
func (p *process) Wait(context.Context) error {
	<-p.done
	if s := p.cmd.ProcessState; s != nil && !s.Success() {
		return errors.New(s.String())
	}
	return nil
}

// Kill kills the group; Wait tells when it is gone.
func (p *process) Kill(context.Context) error { p.kill(); return nil }

func (p *process) Diagnose(context.Context) string { return "" }
func (p *process) Stdout() io.ReadCloser           { return p.handshake }
func (p *process) Stderr() io.ReadCloser           { return p.silence }
func (p *process) Name() string                    { return p.name }

// ID is the pid, "" before the start.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return ""
	}
	return strconv.Itoa(p.pid)
}

// PluginToHost accepts a Unix socket in the private directory only.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	if network != "unix" || !strings.HasPrefix(filepath.Clean(addr), p.dir+"/") {
		return "", "", fmt.Errorf("%s offers %s socket %q, want a Unix socket in the directory it was given", p.name, network, addr)
	}
	return network, addr, nil
}

// HostToPlugin is the identity: both see the same file system.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// lifelineEnv names the descriptor of the lifeline in the child.
var lifelineEnv = wire.EnvLifeline + "=3"
