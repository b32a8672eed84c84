package kernel

import (
	"context"
	"errors"
)

// Manifest is what a backend says of itself.
type Manifest struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Doc      string   `json:"doc"`
	Arch     string   `json:"arch"`     // GOARCH of the code it emits, "" for portable
	Requires []string `json:"requires"` // features without which it emits nothing
	Ops      []Op     `json:"ops"`
	Env      []string `json:"env,omitempty"` // environment variables it reads; all others are scrubbed
}

// ErrUnsupported is wrapped by Space and Emit for a problem that a backend does not do: a reported
// state, not a failure.
var ErrUnsupported = errors.New("problem not supported by this backend")

// Backend is what a plugin offers; the author implements it, the host sees the same interface
// through gRPC. host is the set of usable features: code emitted must need no other. It may tell sizes of
// caches (Features.Cache), which declared defaults may follow.
type Backend interface {
	Manifest(ctx context.Context) (Manifest, error)
	// Layouts lists the weight layouts it can run a format in, the default first.
	Layouts(ctx context.Context, host Features, f Format) ([]Layout, error)
	// Space declares what may vary for a problem. It depends on the problem and host alone.
	Space(ctx context.Context, host Features, p Problem) (Space, error)
	// Emit makes the artifact of a configuration that Space allows.
	Emit(ctx context.Context, host Features, p Problem, c Config) (*Artifact, error)
}
