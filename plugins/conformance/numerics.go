package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/kernel/jit"
	"github.com/tilewright/tilewright/kernel/ref"
	"github.com/tilewright/tilewright/kernel/ref/kerneltest"
)

// envCheck makes this program check artifacts from standard input and exit. It is read in init, so
// that any program that links this package can sacrifice a copy of itself, test binaries included.
const envCheck = "TILEWRIGHT_CONFORMANCE_CHECK"

func init() {
	if os.Getenv(envCheck) != "" {
		if err := serveChecks(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// verdict answers one artifact.
type verdict struct {
	Err string `json:"err"`
}

func serveChecks(r io.Reader, w io.Writer) error {
	dec, enc := json.NewDecoder(r), json.NewEncoder(w)
	for {
		var a kernel.Artifact
		if err := dec.Decode(&a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var v verdict
		if err := checkArtifactNumbers(&a); err != nil {
			v.Err = err.Error()
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
}

func checkArtifactNumbers(a *kernel.Artifact) error {
	funcs, free, err := entries(a)
	if err != nil {
		return err
	}
	defer free()
	return kerneltest.Check(&kerneltest.Heap{}, funcs, a)
}

// entries makes an artifact callable.
func entries(a *kernel.Artifact) (kerneltest.Funcs, func(), error) {
	if a.Kind == kernel.KindGo {
		m, err := ref.Build(a)
		return m, func() {}, err
	}
	code, err := jit.Map(a.Code)
	if err != nil {
		return nil, nil, err
	}
	out := kerneltest.Funcs{}
	for name, off := range a.Entries {
		entry := code.Entry + uintptr(off)
		out[name] = func(args unsafe.Pointer) { jit.Call0(entry, args) }
	}
	return out, code.Free, nil
}

// numerics runs what was emitted, as far as this host can, in a disposable process.
func (k *kit) numerics(ctx context.Context) {
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	defer runtime.UnlockOSThread()
	var c checker
	defer c.stop()
	skipped := 0
	for _, p := range k.problems {
		for _, e := range p.emitted {
			if ctx.Err() != nil {
				return
			}
			if !k.runnable(e.artifact) {
				skipped++
				continue
			}
			k.tried(checkNumerics)
			if err := c.check(ctx, e.artifact); err != nil {
				k.fail(checkNumerics, "%s with %s: %v", p, e.config, err)
			}
		}
	}
	switch c := k.check(checkNumerics); {
	case skipped > 0 && c.Tried == 0:
		k.note(checkNumerics, Skip, "this host cannot run any of %d artifacts", skipped)
	case skipped > 0:
		c.Detail = append(c.Detail, fmt.Sprintf("this host cannot run %d other artifacts", skipped))
	}
}

func (k *kit) runnable(a *kernel.Artifact) bool {
	switch a.Kind {
	case kernel.KindGo:
		return true
	case kernel.KindCode:
		return k.man.Arch == k.o.Arch && k.o.Features.Has(a.Key.ISA...) && a.Validate(k.o.Features) == nil
	}
	return false
}

// checker is the process that runs artifacts; it is started on demand, again after a crash, and dies
// with this one even if the code that it runs never returns.
type checker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
}

const checkDeadline = 60 * time.Second

func (c *checker) start() error {
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = []string{envCheck + "=1", "GOMAXPROCS=2"}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.stderr.Reset()
	c.cmd.Stderr = &limited{&c.stderr}
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c.cmd.Start()
}

func (c *checker) stop() {
	if c.cmd != nil && c.cmd.Process != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
	c.cmd = nil
}

// check runs one artifact on all cases of its op.
func (c *checker) check(ctx context.Context, a *kernel.Artifact) error {
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return fmt.Errorf("checking process: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	proc := c.cmd.Process
	defer context.AfterFunc(ctx, func() { proc.Kill() })()
	var v verdict
	err := json.NewEncoder(c.in).Encode(a)
	if err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &v)
		}
	}
	if err != nil {
		c.cmd.Wait()
		state := c.cmd.ProcessState.String()
		c.cmd = nil
		if ctx.Err() != nil {
			return fmt.Errorf("no result within %v", checkDeadline)
		}
		first, _, _ := strings.Cut(strings.TrimSpace(c.stderr.String()), "\n")
		return fmt.Errorf("crashed: %s: %s", state, first)
	}
	if v.Err != "" {
		return errors.New(v.Err)
	}
	return nil
}

// limited keeps the first bytes of a stream.
type limited struct{ b *strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	const limit = 4 << 10
	if room := limit - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
