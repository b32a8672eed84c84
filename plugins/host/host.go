// Package host runs backends as processes and offers them as kernel.Backend. The process is owned:
// its own group, killed as a whole; a deadline on every call; nothing of the host's environment;
// gone when the host is, even by SIGKILL. A backend that dies is an error of type ErrBackendCrashed,
// what it was asked is not asked again, and the next call starts it afresh.
package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

// Options of Open; the zero value gives the defaults.
type Options struct {
	StartTimeout time.Duration // from exec to the first answer, 10 s
	CallTimeout  time.Duration // of one call, 10 s
	MaxCrashes   int           // in a row, after which it is not started again, 16
	Log          *slog.Logger  // receives the backend's log; slog.Default() if nil

	now func() time.Time // of the clock that files are dated by; time.Now if nil
}

func (o Options) withDefaults() Options {
	if o.StartTimeout == 0 {
		o.StartTimeout = 10 * time.Second
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.MaxCrashes == 0 {
		o.MaxCrashes = 16
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.now == nil {
		o.now = time.Now
	}
	return o
}

// Plugin is a backend in a process. Its methods may be called concurrently; calls run one at a time,
// so that a crash has one cause.
type Plugin struct {
	src  Source
	opts Options
	exe  *executable // third party only
	// declares are the variables that the manifest declares, and env those of them that are set here.
	declares, env []string
	id            kernel.BackendID
	man           kernel.Manifest

	turn       chan struct{} // holds a token while nobody uses what follows
	sess       *session      // nil if not running
	closed     bool
	crashes    int // in a row
	hangs      int // in all
	quarantine map[string]*ErrBackendCrashed

	mu     sync.Mutex
	deaths []error // that were outlived
}

var _ kernel.Backend = (*Plugin)(nil)

// debugTimeout bounds a call of a backend that somebody may have stopped in a debugger.
const debugTimeout = time.Hour

// Open starts a backend and asks for its manifest. The caller closes it. In place of a third party's
// program it attaches to the backend of that name in TILEWRIGHT_REATTACH, if there is one.
func Open(ctx context.Context, src Source, o Options) (*Plugin, error) {
	if src.Path != "" {
		running, err := attached(src.Name)
		if err != nil {
			return nil, &StartError{Backend: src.Name, Path: src.Path, Why: err.Error()}
		}
		if running != nil {
			src = *running
		}
	}
	if src.Reattach != nil {
		o.CallTimeout = debugTimeout
	}
	p := &Plugin{src: src, opts: o.withDefaults(), id: kernel.BackendID{Name: src.Name, Digest: src.Digest},
		turn: make(chan struct{}, 1), quarantine: map[string]*ErrBackendCrashed{}}
	p.turn <- struct{}{}
	if src.Path != "" {
		exe, err := openExecutable(src.Path)
		if err != nil {
			return nil, &StartError{Backend: src.Name, Path: src.Path, Why: err.Error()}
		}
		p.exe, p.id.Digest = exe, exe.sha256
	}
	if err := p.greet(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// greet fetches and checks the manifest. A backend that declares environment variables which are
// set here is started again with them, and they become part of its identity.
func (p *Plugin) greet(ctx context.Context) error {
	m, err := p.fetchManifest(ctx)
	if err != nil {
		return err
	}
	if m.Name != p.src.Name {
		return &StartError{Backend: p.src.Name, Path: p.src.Path, Why: fmt.Sprintf("its manifest names it %q", m.Name)}
	}
	p.man = m
	if p.src.Reattach == nil {
		p.declares = m.Env
		p.env, p.id.Digest = declared(m.Env, p.id.Digest)
	}
	if len(p.env) == 0 {
		return nil
	}
	p.stop()
	p.man, err = p.fetchManifest(ctx)
	return err
}

// declared are those of the variables that a manifest declares that are set here, and the digest of the
// code with them.
func declared(names []string, code string) (env []string, digest string) {
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if len(env) == 0 {
		return nil, code
	}
	sort.Strings(env)
	sum := sha256.Sum256([]byte(code + "\n" + strings.Join(env, "\n")))
	return env, hex.EncodeToString(sum[:])
}

func (p *Plugin) fetchManifest(ctx context.Context) (kernel.Manifest, error) {
	var m kernel.Manifest
	err := p.call(ctx, asked{call: callManifest}, func(ctx context.Context, c pb.BackendClient) error {
		r, err := c.Manifest(ctx, &pb.ManifestRequest{})
		if err != nil {
			return err
		}
		m, err = wire.FromManifest(r)
		return err
	})
	return m, err
}

// ID is the backend's identity, the same in every artifact it emits.
func (p *Plugin) ID() kernel.BackendID { return p.id }

// Source is where the backend came from.
func (p *Plugin) Source() Source { return p.src }

// Manifest returns what the backend said when it was opened.
func (p *Plugin) Manifest(context.Context) (kernel.Manifest, error) { return p.man, nil }

// Layouts implements kernel.Backend.
func (p *Plugin) Layouts(ctx context.Context, host kernel.Features, f kernel.Format) ([]kernel.Layout, error) {
	var out []kernel.Layout
	err := p.call(ctx, asked{call: "layouts", of: f.String()}, func(ctx context.Context, c pb.BackendClient) error {
		r, err := c.Layouts(ctx, &pb.LayoutsRequest{Host: host, Format: wire.ToFormat(f)})
		if err != nil {
			return err
		}
		out, err = wire.FromLayouts(r, f)
		return err
	})
	return out, err
}

// Space implements kernel.Backend.
func (p *Plugin) Space(ctx context.Context, host kernel.Features, pr kernel.Problem) (kernel.Space, error) {
	var out kernel.Space
	err := p.call(ctx, asked{call: "space", problem: pr}, func(ctx context.Context, c pb.BackendClient) error {
		r, err := c.Space(ctx, &pb.SpaceRequest{Host: host, Problem: wire.ToProblem(pr)})
		if err != nil {
			return err
		}
		out, err = wire.FromSpace(r)
		return err
	})
	return out, err
}

// Emit implements kernel.Backend. The artifact is checked and carries the identity that the host
// gave the backend.
func (p *Plugin) Emit(ctx context.Context, host kernel.Features, pr kernel.Problem, cfg kernel.Config) (*kernel.Artifact, error) {
	var out *kernel.Artifact
	err := p.call(ctx, asked{call: "emit", problem: pr, config: cfg}, func(ctx context.Context, c pb.BackendClient) error {
		r, err := c.Emit(ctx, &pb.EmitRequest{Host: host, Problem: wire.ToProblem(pr), Config: cfg})
		if err != nil {
			return err
		}
		if out, err = wire.FromArtifact(r, pr, cfg, p.id); err != nil {
			return err
		}
		return checkArtifact(out, p.man, host)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkArtifact holds an artifact against the host and against the backend's own manifest.
func checkArtifact(a *kernel.Artifact, m kernel.Manifest, host kernel.Features) error {
	if err := a.Validate(host); err != nil {
		return err
	}
	if a.Kind == kernel.KindGo {
		return nil
	}
	if m.Arch == "" {
		return fmt.Errorf("%w: %s: machine code from a backend whose manifest says portable", kernel.ErrArtifact, a.Key.Problem)
	}
	if missing := kernel.Features(a.Key.ISA).Missing(m.Requires); len(missing) > 0 {
		return fmt.Errorf("%w: %s: its ISA list lacks %v, which the backend's manifest requires", kernel.ErrArtifact, a.Key.Problem, missing)
	}
	return nil
}

// Close ends the process and everything it started.
func (p *Plugin) Close() error {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	p.closed = true
	p.stop()
	if p.exe != nil {
		p.exe.file.Close()
	}
	return nil
}

// stop ends the session; whoever calls has the turn, or is the only user.
func (p *Plugin) stop() {
	if p.sess != nil {
		p.sess.close()
		p.sess = nil
	}
}

var _ io.Closer = (*Plugin)(nil)
