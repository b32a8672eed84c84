package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/tilewright/tilewright/kernel"
	"github.com/tilewright/tilewright/plugins/proto/wire"
	"github.com/tilewright/tilewright/plugins/sdk"
)

// TestMain turns the test binary into one of the fakes when a host starts it as one.
func TestMain(m *testing.M) {
	misbehaveBeforeServing(os.Getenv(wire.EnvServe))
	backends := map[string]kernel.Backend{}
	for _, name := range fakes {
		backends[name] = fake{name}
	}
	sdk.MaybeServe(backends)
	switch os.Getenv(envRole) {
	case "author":
		sdk.Main(fake{"good"})
	case "host":
		beHost()
	}
	goleak.VerifyTestMain(m)
}

// fakes are backends by the way in which they misbehave.
var fakes = []string{"good", "env", "illegal", "segv", "abort", "oom", "panic", "exits", "hangs", "late", "killed",
	"longline", "badjson", "forks", "huge", "truncated", "liesisa", "badspace", "badname", "misnamed", "prints", "unsupported",
	"overclaims", "portable", "deserts", "slow"}

// misbehaveBeforeServing plays the fakes that fail before the handshake.
func misbehaveBeforeServing(name string) {
	switch name {
	case "noisy":
		fmt.Println("hello from my init function")
	case "oldproto":
		fmt.Println("1|7|unix|/tmp/nowhere|grpc|")
		time.Sleep(time.Minute)
	case "nextproto": // serves what this program could talk to, if it did not look at the version
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: wire.Handshake, GRPCServer: plugin.DefaultGRPCServer, Logger: hclog.NewNullLogger(),
			VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion + 1: {wire.Dispensed: servesNothing{}}}})
	case "dies":
		panic("cannot read my tables")
	case "silent":
		time.Sleep(time.Minute)
	case "elsewhere":
		fmt.Println("1|1|tcp|127.0.0.1:1|grpc|")
		time.Sleep(time.Minute)
	case "quits":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(3)
	case "mute": // shakes hands, then never answers
		dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
		fmt.Printf("1|1|unix|%s/none|grpc|\n", dir)
		time.Sleep(time.Minute)
	default:
		return
	}
	os.Exit(0)
}

type servesNothing struct{ plugin.NetRPCUnsupportedPlugin }

func (servesNothing) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (servesNothing) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.ErrUnsupported
}

type fake struct{ name string }

func (f fake) Manifest(context.Context) (kernel.Manifest, error) {
	m := kernel.Manifest{Name: f.name, Version: "1", Arch: "amd64", Ops: []kernel.Op{kernel.OpScale}}
	switch f.name {
	case "misnamed":
		m.Name = "someone-else"
	case "liesisa":
		m.Requires = []string{"avx2", "fma"}
	case "env":
		m.Env, m.Version = []string{"FAKE_KNOB"}, os.Getenv("FAKE_KNOB")+"/"+os.Getenv("FAKE_SECRET")
	case "portable":
		m.Arch = ""
	}
	return m, nil
}

func (f fake) Layouts(context.Context, kernel.Features, kernel.Format) ([]kernel.Layout, error) {
	return []kernel.Layout{{Lanes: 16, Cols: 2}}, nil
}

func (f fake) Space(_ context.Context, _ kernel.Features, p kernel.Problem) (kernel.Space, error) {
	s := kernel.Space{Version: "1", Params: []kernel.Param{{Name: "x", Values: []int64{0, 1, 2}, Default: 0}}}
	switch f.name {
	case "unsupported":
		return s, fmt.Errorf("%w: %s", kernel.ErrUnsupported, p)
	}
	return s, nil
}

func (f fake) Emit(_ context.Context, host kernel.Features, p kernel.Problem, c kernel.Config) (*kernel.Artifact, error) {
	a := &kernel.Artifact{
		Key: kernel.ArtifactKey{LayoutVersion: kernel.LayoutVersion, ISA: host, ABI: kernel.ABILeaf,
			Backend: kernel.BackendID{Name: f.name}},
		Kind: kernel.KindCode, Code: []byte{0xc3, byte(c["x"])}, Entries: map[string]int{kernel.EntryMain: 0},
	}
	if c["x"] == 0 {
		return a, nil // the default configuration is fine
	}
	switch f.name {
	case "illegal":
		raise(syscall.SIGILL)
	case "segv":
		raise(syscall.SIGSEGV)
	case "abort":
		raise(syscall.SIGABRT)
	case "killed":
		raise(syscall.SIGKILL)
	case "oom":
		fmt.Fprintln(realStderr(), "fatal error: runtime: out of memory")
		os.Exit(2)
	case "panic":
		panic("a bug in a backend")
	case "exits":
		os.Exit(7)
	case "hangs":
		select {}
	case "deserts": // to the group of the host, and does nothing any more
		if pgid, err := syscall.Getpgid(os.Getppid()); err != nil || syscall.Setpgid(0, pgid) != nil {
			return nil, fmt.Errorf("cannot leave the group: %v", err)
		}
		for { // whoever wakes it
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	case "slow":
		time.Sleep(400 * time.Millisecond)
	case "late":
		time.Sleep(1500 * time.Millisecond)
	case "longline":
		fmt.Fprintln(realStderr(), strings.Repeat("x", 10<<20))
	case "badjson":
		fmt.Fprintln(realStderr(), `{"@message": 42, "@level": ["no"], "@timestamp": {}}`)
	case "prints":
		fmt.Println(strings.Repeat("spam ", 1<<16))
	case "forks":
		cmd := exec.Command("/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("child %d", cmd.Process.Pid)
	case "huge":
		a.Code = make([]byte, 64<<20)
	case "truncated":
		a.Entries[kernel.EntryMain] = 4096
	case "liesisa":
		a.Key.ISA = nil
	case "overclaims":
		a.Key.ISA = []string{"avx9000"}
	}
	return a, nil
}

// raise dies of a signal as a program without the Go runtime would: through its default action.
func raise(sig syscall.Signal) {
	signal.Reset(sig)
	syscall.Kill(os.Getpid(), sig)
	time.Sleep(time.Second)
}

// realStderr is descriptor 2, which go-plugin leaves alone.
func realStderr() *os.File { return os.NewFile(2, "stderr") }
