package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tilewright/tilewright/kernel"
	pb "github.com/tilewright/tilewright/plugins/proto/tilewright/plugin/v1"
	"github.com/tilewright/tilewright/plugins/proto/wire"
)

type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	b kernel.Backend
}

func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterBackendServer(s, &server{b: p.b})
	return nil
}

func (p *grpcPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the SDK serves; hosts use package plugins/host")
}

// server answers RPCs from a kernel.Backend.
type server struct {
	pb.UnimplementedBackendServer
	b kernel.Backend
}

func (s *server) Manifest(ctx context.Context, _ *pb.ManifestRequest) (_ *pb.ManifestResponse, err error) {
	defer answer(&err)
	m, err := s.b.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	return wire.ToManifest(m), wire.CheckManifest(m)
}

func (s *server) Layouts(ctx context.Context, r *pb.LayoutsRequest) (_ *pb.LayoutsResponse, err error) {
	defer answer(&err)
	ls, err := s.b.Layouts(ctx, kernel.NewFeatures(r.GetHost()...), wire.FromFormat(r.GetFormat()))
	if err != nil {
		return nil, err
	}
	return wire.ToLayouts(ls), nil
}

func (s *server) Space(ctx context.Context, r *pb.SpaceRequest) (_ *pb.SpaceResponse, err error) {
	defer answer(&err)
	p, err := wire.FromProblem(r.GetProblem())
	if err != nil {
		return nil, err
	}
	sp, err := s.b.Space(ctx, kernel.NewFeatures(r.GetHost()...), p)
	if err != nil {
		return nil, err
	}
	return wire.ToSpace(sp), wire.CheckSpace(sp)
}

// Emit refuses a configuration outside the declared space before the backend sees it.
func (s *server) Emit(ctx context.Context, r *pb.EmitRequest) (_ *pb.EmitResponse, err error) {
	defer answer(&err)
	p, err := wire.FromProblem(r.GetProblem())
	if err != nil {
		return nil, err
	}
	host := kernel.NewFeatures(r.GetHost()...)
	sp, err := s.b.Space(ctx, host, p)
	if err != nil {
		return nil, err
	}
	if err := sp.Check(r.GetConfig()); err != nil {
		return nil, err
	}
	a, err := s.b.Emit(ctx, host, p, r.GetConfig())
	if err != nil {
		return nil, err
	}
	return wire.ToArtifact(a)
}

// answer turns an error into the status that plugin.proto documents, and a panic into one too: the
// process survives, the configuration is blamed.
func answer(err *error) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		slog.Error("panic in backend", "panic", fmt.Sprint(r), "stack", string(stack))
		*err = status.Error(codes.Aborted, clip(fmt.Sprintf("panic: %v\n%s", r, stack)))
		return
	}
	switch {
	case *err == nil:
	case errors.Is(*err, kernel.ErrUnsupported):
		*err = status.Error(codes.FailedPrecondition, clip((*err).Error()))
	case errors.Is(*err, kernel.ErrConfig):
		*err = status.Error(codes.InvalidArgument, clip((*err).Error()))
	case errors.Is(*err, context.Canceled), errors.Is(*err, context.DeadlineExceeded):
		*err = status.FromContextError(*err).Err()
	default:
		*err = status.Error(codes.Unknown, clip((*err).Error()))
	}
}

// clip keeps a message within what an RPC trailer can carry.
func clip(s string) string {
	const limit = 4 << 10
	if len(s) > limit {
		return s[:limit] + " ..."
	}
	return s
}
