package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// Serve serves a backend to the host that started this process, until the host closes it or is
// gone. Standard output belongs to the handshake: what the backend prints goes to the host's log.
func Serve(b kernel.Backend) {
	os.Unsetenv(wire.EnvServe) // children of the backend are not backends
	followLifeline()
	contain()
	slog.SetDefault(logger(os.Stderr))
	if err := guardStdout(); err != nil {
		slog.Warn("standard output is not protected", "err", err)
	}
	plugin.Serve(config(b, nil))
}

func config(b kernel.Backend, test *plugin.ServeTestConfig) *plugin.ServeConfig {
	return &plugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{
			wire.ProtocolVersion: {wire.Dispensed: &grpcPlugin{b: b}},
		},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			const maxRequest = 1 << 20
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(maxRequest), grpc.MaxSendMsgSize(wire.MaxMessage))...)
		},
		Logger: hclog.NewNullLogger(),
		Test:   test,
	}
}

// serveDebug serves without a host, and prints the line that makes one attach.
func serveDebug(b kernel.Backend, stderr io.Writer) int {
	m, err := manifest(b)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ch := make(chan *plugin.ReattachConfig, 1)
	done := make(chan struct{})
	go plugin.Serve(config(b, &plugin.ServeTestConfig{Context: ctx, ReattachConfigCh: ch, CloseCh: done}))
	var r *plugin.ReattachConfig
	select {
	case r = <-ch:
	case <-done:
		fmt.Fprintf(stderr, "cannot serve: no Unix socket can be made in %s (set TMPDIR to a writable path under 80 bytes)\n", os.TempDir())
		return 1
	}
	start, err := wire.StartTime(r.Pid)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	line, err := json.Marshal([]wire.Reattach{{Name: m.Name, Pid: r.Pid, Start: start, Network: r.Addr.Network(), Addr: r.Addr.String()}})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stderr, "serving %s; attach a debugger to pid %d, then start the host with\n%s='%s'\n", m.Name, r.Pid, wire.EnvReattach, line)
	<-done
	return 0
}

// followLifeline ends this process when the pipe that the host holds open ends.
func followLifeline() {
	fd, err := strconv.Atoi(os.Getenv(wire.EnvLifeline))
	os.Unsetenv(wire.EnvLifeline)
	if err != nil || fd < 3 {
		return
	}
	unix.CloseOnExec(fd)
	unix.SetNonblock(fd, true)
	f := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		io.Copy(io.Discard, f)
		os.Exit(0)
	}()
}

// contain makes this process the first choice of the OOM killer and forbids core dumps: a backend
// is expendable, its host is not. Both are best effort.
func contain() {
	os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// guardStdout keeps file descriptor 1 to the handshake alone: os.Stdout becomes a private copy of
// it, which go-plugin replaces after the handshake, and descriptor 1 itself leads to stderr.
func guardStdout() error {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		unix.Close(fd)
		return err
	}
	os.Stdout = os.NewFile(uintptr(fd), "/dev/stdout")
	return nil
}

// logger writes JSON lines with the keys that plugin hosts read.
func logger(w io.Writer) *slog.Logger {
	keys := map[string]string{slog.TimeKey: "@timestamp", slog.LevelKey: "@level", slog.MessageKey: "@message"}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			k, ok := keys[a.Key]
			if !ok || len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				return slog.String(k, a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
			case slog.LevelKey:
				return slog.String(k, strings.ToLower(a.Value.String()))
			}
			return slog.Attr{Key: k, Value: a.Value}
		},
	}))
}
