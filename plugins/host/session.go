package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// StartError says why a backend did not start.
type StartError struct {
	Backend string
	Path    string // executable, "" for a built-in
	Why     string
	Line    string // what it printed to stdout in place of a handshake
	Reason  Reason // if its process died
}

func (e *StartError) Error() string {
	s := "backend " + e.Backend
	if e.Path != "" {
		s += " (" + e.Path + ")"
	}
	s += " did not start: " + e.Why
	if e.Line != "" {
		s += fmt.Sprintf("; its first line on stdout was %q", e.Line)
	}
	return s
}

// session is one running process of a backend and the connection to it.
type session struct {
	proc   *process // nil if reattached
	client *plugin.Client
	conn   *grpc.ClientConn // of a reattached one
	rpc    pb.BackendClient
	dir    string // of the socket, "" once it was removed
}

type grpcPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (grpcPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host does not serve")
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return pb.NewBackendClient(c), nil
}

// baseEnv is what every backend gets: nothing of the host's, fixed settings of the Go runtime.
var baseEnv = []string{"LANG=C", "TZ=UTC", "GOMAXPROCS=2", "GOGC=100", "GODEBUG=", "GOTRACEBACK=single"}

var callLimits = grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(1<<20))

// command builds the process of a source. exe is the open file of a third-party backend.
func command(src Source, exe *executable, env []string) *exec.Cmd {
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{wire.BinaryPrefix + src.Name}}
	if exe != nil {
		// Descriptor 3 is the lifeline, this one becomes 4.
		cmd.Path, cmd.Args[0] = "/proc/self/fd/4", src.Path
		cmd.ExtraFiles = []*os.File{exe.file}
	}
	cmd.Env = append(append([]string{wire.EnvServe + "=" + src.Name, lifelineEnv}, baseEnv...), env...)
	return cmd
}

// start runs a backend until it answers RPC, or says why it does not.
func start(ctx context.Context, src Source, exe *executable, env []string, o Options) (*session, error) {
	if src.Reattach != nil {
		conn, err := grpc.NewClient("unix:"+src.Reattach.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()), callLimits)
		if err != nil {
			return nil, err
		}
		return &session{conn: conn, rpc: pb.NewBackendClient(conn)}, nil
	}
	dir, err := socketDir(os.Getpid())
	if err != nil {
		return nil, err
	}
	cmd := command(src, exe, env)
	p := newProcess(src.Name, dir, cmd, o.Log.With("backend", src.Name))
	s := &session{proc: p, dir: dir, client: plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.Dispensed: grpcPlugin{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, c *exec.Cmd, _ string) (runner.Runner, error) {
			cmd.Env = append(cmd.Env, c.Env...)
			return p, nil
		},
		SkipHostEnv:      true,
		StartTimeout:     o.StartTimeout,
		AutoMTLS:         exe != nil,
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions:  []grpc.DialOption{callLimits, grpc.WithIdleTimeout(0)},
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
	})}
	// The connection is made without a deadline of its own.
	ctx, cancel := context.WithTimeout(ctx, o.StartTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, p.kill)
	err = s.connect()
	if err == nil && exe != nil {
		err = exe.unchanged()
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = s.explain(src, err, ctx)
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) connect() error {
	c, err := s.client.Client()
	if err != nil {
		return err
	}
	v, err := c.Dispense(wire.Dispensed)
	if err != nil {
		return err
	}
	s.rpc = v.(pb.BackendClient)
	return nil
}

// explain turns a failed start into what its author needs to know.
func (s *session) explain(src Source, cause error, ctx context.Context) error {
	e := &StartError{Backend: src.Name, Path: src.Path, Why: cause.Error()}
	p := s.proc
	if p.ID() == "" { // could not be executed
		return e
	}
	line := p.firstLine()
	parts := strings.Split(line, "|")
	switch {
	case line != "" && !handshakeRE.MatchString(line):
		e.Line = clip(line)
		e.Why = "it wrote to standard output, which belongs to the handshake, before serving"
	case line != "" && parts[1] != strconv.Itoa(wire.ProtocolVersion):
		e.Why = fmt.Sprintf("it speaks protocol %s, this program speaks %d: build it against the matching plugins/sdk", parts[1], wire.ProtocolVersion)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Why, e.Reason = "it did not answer within the time for a start; killed", ReasonHang
	case ctx.Err() != nil:
		return ctx.Err()
	case line == "":
		<-p.done
		reason, detail := classify(p.cmd.ProcessState, p.stderr.String())
		e.Why, e.Reason = fmt.Sprintf("its process ended before the handshake (%s): %s", reason, detail), reason
	}
	return e
}

// close ends the session: a moment to leave by itself, then the whole group is killed. It returns
// when the process is reaped and its directory is removed.
func (s *session) close() {
	if s.proc == nil {
		s.conn.Close()
		return
	}
	const grace = 250 * time.Millisecond
	t := time.AfterFunc(grace, s.proc.kill)
	defer t.Stop()
	s.client.Kill()
	if s.proc.ID() != "" {
		s.proc.kill()
		<-s.proc.done
	}
	s.dropSocket()
}

// dropSocket removes the directory of the socket. Once the connection stands, it is never made again:
// a host that is killed then leaves nothing behind, and nobody else can connect.
func (s *session) dropSocket() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
		s.dir = ""
	}
}

// exited reports whether the process is gone.
func (s *session) exited() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.proc.done:
		return true
	default:
		return false
	}
}
