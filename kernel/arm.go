package kernel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
)

// Knobs are the settings of an arm that are not a kernel's.
type Knobs struct {
	ThreadsDecode  int      `json:"threads_decode" key:"hard"`
	ThreadsPrefill int      `json:"threads_prefill" key:"hard"`
	RepackRows     int      `json:"repack_rows" key:"hard"`   // rows made at a time while loading, where the grid is changed
	PanelMinM      int      `json:"panel_min_m" key:"hard"`   // rows from which prefill uses the M=512 choice; fewer use smaller points
	PrefillChunk   int      `json:"prefill_chunk" key:"hard"` // tokens of one forward pass
	SpinMicros     int      `json:"spin_us" key:"hard"`       // spin before a worker parks
	HugePages      bool     `json:"huge_pages" key:"hard"`    // madvise the weights and the buffers of a pass
	KV             ElemType `json:"kv" key:"hard"`
}

// DefaultKnobs are the knobs of the default arm for a number of usable CPUs.
func DefaultKnobs(threads int) Knobs {
	return Knobs{
		ThreadsDecode: threads, ThreadsPrefill: threads, RepackRows: 64, PanelMinM: 129,
		PrefillChunk: 512, SpinMicros: 50, HugePages: true, KV: ElemF16,
	}
}

// Choice assigns a configuration to a problem.
type Choice struct {
	Problem Problem `json:"problem" key:"hard"`
	Backend string  `json:"backend" key:"hard"`
	Config  Config  `json:"config" key:"hard"`
}

// Arm is a whole assignment: which configuration serves each problem, and the global knobs.
type Arm struct {
	Choices []Choice `json:"choices" key:"hard"`
	Knobs   Knobs    `json:"knobs" key:"hard"`
}

// Find returns the choice for a problem, its Layout ignored if the problem has none.
func (a Arm) Find(p Problem) (Choice, bool) {
	for _, c := range a.Choices {
		q := c.Problem
		if p.Layout == (Layout{}) {
			q.Layout = Layout{}
		}
		if q == p {
			return c, true
		}
	}
	return Choice{}, false
}

// BackendOrder is the order of preference in which the default arm tries backends.
var BackendOrder = []string{"amx", "avx512", "avxvnni", "avx2", "neon", "generic"}

// Suite resolves problems against a set of backends on one host.
type Suite struct {
	Host     Features
	Backends map[string]Backend
	Order    []string // names to try, first wins; BackendOrder if empty
	// Skipped is told of a backend that failed where another serves in its place; nil if nobody wants to know.
	Skipped func(backend string, err error)
}

// Names lists the suite's backends in order of preference.
func (s Suite) Names() []string {
	order := s.Order
	if len(order) == 0 {
		order = BackendOrder
	}
	var out []string
	for _, n := range order {
		if s.Backends[n] != nil {
			out = append(out, n)
		}
	}
	return out
}

// Layout returns the default layout of a format: that of the first backend that runs it. A backend
// that fails is no reason to fail: the next one serves.
func (s Suite) Layout(ctx context.Context, f Format) (Layout, error) {
	var failed error
	for _, n := range s.Names() {
		ls, err := s.Backends[n].Layouts(ctx, s.Host, f)
		if ctx.Err() != nil {
			return Layout{}, ctx.Err()
		}
		if err == nil && len(ls) > 0 {
			return ls[0], nil
		}
		if err != nil && !errors.Is(err, ErrUnsupported) {
			failed = errors.Join(failed, s.skip(n, fmt.Errorf("layouts of %s: %w", f, err)))
		}
	}
	if failed != nil {
		return Layout{}, failed
	}
	return Layout{}, fmt.Errorf("%w: no backend has a layout for %s", ErrUnsupported, f)
}

// skip reports a backend that failed and returns the error with its name.
func (s Suite) skip(backend string, err error) error {
	if s.Skipped != nil {
		s.Skipped(backend, err)
	}
	return fmt.Errorf("backend %s: %w", backend, err)
}

// Defaults yields the declared defaults for a problem of each backend that does it, in order of
// preference, and the error in place of a backend that failed to say.
func (s Suite) Defaults(ctx context.Context, p Problem) iter.Seq2[Choice, error] {
	return func(yield func(Choice, error) bool) {
		for _, n := range s.Names() {
			sp, err := s.Backends[n].Space(ctx, s.Host, p)
			c := Choice{Problem: p, Backend: n}
			switch {
			case ctx.Err() != nil:
				yield(c, ctx.Err())
				return
			case errors.Is(err, ErrUnsupported):
				continue
			case err != nil:
				err = s.skip(n, fmt.Errorf("space of %s: %w", p, err))
			default:
				c.Config = sp.Default()
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// Default is the default choice for a problem: the declared defaults of the first backend that does
// it. This is the one source of the default arm, for the engine and the tuner alike.
func (s Suite) Default(ctx context.Context, p Problem) (Choice, error) {
	var failed error
	for c, err := range s.Defaults(ctx, p) {
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return Choice{}, failed
	}
	return Choice{}, fmt.Errorf("%w: no backend does %s", ErrUnsupported, p)
}

// Emit makes the artifact of a choice.
func (s Suite) Emit(ctx context.Context, c Choice) (*Artifact, error) {
	b := s.Backends[c.Backend]
	if b == nil {
		return nil, fmt.Errorf("backend %q is not loaded (have %v)", c.Backend, s.Names())
	}
	return b.Emit(ctx, s.Host, c.Problem, c.Config)
}

// Supported reports whether this build runs on this platform.
func Supported() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return fmt.Errorf("tilewright runs on linux/amd64 and linux/arm64, not on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	return nil
}
